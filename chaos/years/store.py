"""The database of one life, which dies before or after one of its commits."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from chaos.years.disk import MortalDisk
from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.pings import Charge
from ollim_bot.paths import DataPaths
from ollim_bot.store.connection import connect
from ollim_bot.store.data_directory import prepare_data_directory
from ollim_bot.store.database import Step
from ollim_bot.store.opening import open_database
from ollim_bot.testing.immediate_store import ImmediateStore

R = TypeVar("R")


class MortalStore(ImmediateStore):
    """`paid` is told of each message that has cost a token, when that is committed."""

    def __init__(
        self,
        paths: DataPaths,
        now: Callable[[], datetime],
        disk: MortalDisk,
        paid: Callable[[MessageId], None],
    ) -> None:
        self._connections: list[sqlite3.Connection] = []
        self._disk = disk
        self._paid = paid
        self._known: set[MessageId] = set()
        prepare_data_directory(paths)
        database = open_database(
            paths,
            now,
            is_holder=True,
            report=lambda _: None,
            disk=disk,
            connection=self._connected,
        )
        super().__init__(database)
        self._known = self._paid_ids()

    def run(self, step: Step[R]) -> R:
        self._disk.step()
        result = super().run(step)
        for each in (paid := self._paid_ids()) - self._known:
            self._paid(each)
        self._known |= paid
        self._disk.step()
        return result

    def query(self, question: Step[R]) -> R:
        self._disk.check()
        return super().query(question)

    def abandon(self) -> None:
        """As the kernel does with the files of a process that was killed."""
        for connection in self._connections:
            with suppress(sqlite3.Error):
                connection.close()

    def _paid_ids(self) -> set[MessageId]:
        """The newest message, and those that wait for the end of the quiet, if they cost a token.

        A digest answers for others that were paid for before.
        """
        newest, held = super().query(lambda tx: (tx.messages.page(1), tx.held.get().waiting))
        said = {
            each.message.id
            for each in newest
            if each.sender.charge is Charge.TOKEN and not each.message.pings
        }
        return said | {each.message.id for each in held if each.charge is Charge.TOKEN}

    def _connected(self, path: Path) -> sqlite3.Connection:
        self._connections.append(connect(path))
        return self._connections[-1]
