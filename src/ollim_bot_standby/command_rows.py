"""The shared rows as the running bot offers them to commands on its machine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TypeVar

from ollim_bot.errors import WriteFailed
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Step
from ollim_bot_standby.errors import NOT_NOW, OnStandby
from ollim_bot_standby.postgres.connection import Address, connect_to
from ollim_bot_standby.postgres.database import PostgresDatabase, open_postgres
from ollim_bot_standby.postgres.lease import Lease

R = TypeVar("R")

# In seconds: a bot that has just begun to lead opens the rows first.
_OPENING = 3.0
# In seconds: for so long a question waits for its command, in all.
ASKING = 30.0


class CommandRows:
    """Questions have connections of their own; steps run among those of the bot that leads.

    `leader` is what the machine is called that leads, while another one does.
    """

    def __init__(self, address: Address, lease: Lease, now: Callable[[], datetime]) -> None:
        self.place = address.place
        self.leader = ""
        self._address = address
        self._lease = lease
        self._now = now
        self._store: Store | None = None
        self._is_open = threading.Event()
        self._lock = threading.Lock()
        self._idle: PostgresDatabase | None = None

    @property
    def leads(self) -> bool:
        return self._lease.held is not None

    def open(self, store: Store) -> None:
        """Run steps in the store of this bot from now on."""
        self._store = store
        self._is_open.set()

    def query(self, question: Step[R]) -> R:
        reader = self._reader()
        try:
            return reader.query(question)
        finally:
            self._put_back(reader)

    def run(self, step: Step[R]) -> R:
        if self.leads:
            self._is_open.wait(_OPENING)
        elif self.leader:
            raise OnStandby(self.place, self.leader)
        if self._store is None or not self.leads:
            raise WriteFailed(self.place, NOT_NOW)
        return self._store.run(step)

    def close(self) -> None:
        with self._lock:
            if self._idle is not None:
                self._idle.close()

    def _reader(self) -> PostgresDatabase:
        with self._lock:
            reader, self._idle = self._idle, None
        connect = partial(connect_to, idle_in_step=ASKING)
        return reader or open_postgres(self._address, self._now, lease=None, connect=connect)

    def _put_back(self, reader: PostgresDatabase) -> None:
        """Keep the connection for the next question; one is enough."""
        with self._lock:
            if self._idle is None:
                self._idle = reader
                return
        reader.close()
