"""The lease row: which process leads, by the clock of the server."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from ollim_bot.clock import boot_time
from ollim_bot.domain.lease import EXPIRES_AFTER, HeldLease
from ollim_bot.store.connection import Row
from ollim_bot.store.postgres.connection import (
    Address,
    Connection,
    ConnectTo,
    connect_to,
    is_lost,
    parse_address,
    translated,
)
from ollim_bot.store.postgres.schema import make_lease_row
from ollim_bot.store.schema import SCHEMA

_UNTIL = f"clock_timestamp() + interval '{EXPIRES_AFTER} seconds'"


@dataclass(frozen=True, slots=True)
class Leader:
    """The machine that leads, or led last; `seconds_left` is 0 once another one may take over."""

    name: str
    epoch: int
    seconds_left: float
    schema: int


class Lease:
    """Takes, renews and releases the lease for this process, on a connection of its own.

    `name` is what people call this machine; it identifies nothing. Each method raises
    `StorageError` if the server does not answer; what it has done is unknown then, and the lease
    counts as it did before.
    """

    def __init__(
        self,
        address: Address,
        name: str,
        boot: Callable[[], float] = boot_time,
        connect: ConnectTo = connect_to,
    ) -> None:
        self.holder = secrets.token_hex(16)
        self.held: HeldLease | None = None
        self._address = address
        self._name = name
        self._boot = boot
        self._connect = connect
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    @property
    def place(self) -> Path:
        return self._address.place

    def take(self) -> HeldLease | None:
        """Lead from now on; None while another process may, or since a newer version did."""
        with self._lock:
            asked_at = self._boot()
            row = self._row(
                f"UPDATE lease SET holder = $1, name = $2, epoch = epoch + 1, step = '',"
                f" until = {_UNTIL} WHERE schema <= $3"
                # An earlier try of this process counts, whose answer was lost.
                " AND (until < clock_timestamp() OR holder = $1) RETURNING epoch",
                self.holder,
                self._name,
                SCHEMA,
            )
            self.held = None if row is None else HeldLease(self.holder, int(row[0]), asked_at)
            return self.held

    def renew(self) -> bool:
        """Lead for longer; False if this process leads no more, and never will with this epoch."""
        with self._lock:
            if self.held is None:
                return False
            asked_at = self._boot()
            row = self._row(
                f"UPDATE lease SET until = {_UNTIL} WHERE holder = $1 AND epoch = $2"
                " RETURNING epoch",
                self.holder,
                self.held.epoch,
            )
            self.held = None if row is None else self.held.renewed(asked_at)
            return self.held is not None

    def release(self) -> None:
        """Let another process lead at once."""
        with self._lock:
            held, self.held = self.held, None
            if held is not None:
                self._row(
                    "UPDATE lease SET until = '-infinity' WHERE holder = $1 AND epoch = $2"
                    " RETURNING epoch",
                    self.holder,
                    held.epoch,
                )

    def may_act(self) -> bool:
        """Whether nobody else can lead yet; asked right before everything that cannot be undone."""
        held = self.held
        return held is not None and held.may_act(self._boot())

    def leader(self) -> Leader | None:
        """The machine that leads, or led last; None if none ever did."""
        with self._lock:
            row = self._row(
                "SELECT name, epoch, schema, CASE WHEN until > clock_timestamp()"
                " THEN extract(epoch FROM until - clock_timestamp()) ELSE 0 END FROM lease"
            )
        if row is None or not row[1]:
            return None
        return Leader(str(row[0]), int(row[1]), float(row[3]), int(row[2]))

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def _row(self, sql: str, *arguments: Any) -> Row | None:
        """What the statement returns; it is run again if the connection was lost."""
        for is_last in (False, True):
            if self._connection is None or is_lost(self._connection):
                self._connection = self._connect(self._address)
                make_lease_row(self._connection, self.place)
            try:
                return self._connection.execute(sql, arguments).fetchone()
            except psycopg.Error as refused:
                if is_last or not is_lost(self._connection):
                    raise translated(self.place, refused) from refused
        return None


def leader_at(url: str) -> Leader | None:
    """The machine that leads the database at `url`, or led last. Raises `OllimError`."""
    with closing(Lease(parse_address(url), "")) as lease:
        return lease.leader()
