"""The database of one run of the bot, which crashes before or after a commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from devtools.doubles.immediate_store import ImmediateStore

from chaos.years.crashing_disk import CrashingDisk
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.connection import connect
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.transaction import Step
from ollim_bot.kernel.values.pings import Charge

R = TypeVar("R")


class CrashingImmediateStore(ImmediateStore):
    """Crashes with its disk, and reports each message that costs a token to `on_payment`."""

    def __init__(
        self,
        paths: DataPaths,
        now: Callable[[], datetime],
        disk: CrashingDisk,
        on_payment: Callable[[MessageId], None],
    ) -> None:
        self._connections: list[sqlite3.Connection] = []
        self._disk = disk
        self._on_payment = on_payment
        self._known_payments: set[MessageId] = set()
        prepare_data_directory(paths)
        try:
            database = open_database(
                paths,
                now,
                is_holder=True,
                report=lambda _: None,
                disk=disk,
                connection=self._connect,
            )
            super().__init__(database)
            self._known_payments = self._paid_messages()
        except BaseException:  # a crash at any step of the start: nobody else would close them
            self.close_connections()
            raise

    def run(self, step: Step[R]) -> R:
        self._disk.count_step()
        result = super().run(step)
        for each in (paid := self._paid_messages()) - self._known_payments:
            self._on_payment(each)
        self._known_payments |= paid
        self._disk.count_step()
        return result

    def query(self, question: Step[R]) -> R:
        self._disk.raise_if_crashed()
        return super().query(question)

    def close_connections(self) -> None:
        """Close the connections, as the kernel closes the files of a killed process."""
        for connection in self._connections:
            with suppress(sqlite3.Error):
                connection.close()

    def _paid_messages(self) -> set[MessageId]:
        """The newest message and those that wait for the end of quiet hours, if they cost a token.

        A digest costs nothing: its pings have been paid for already.
        """
        newest, held = super().query(lambda tx: (tx.messages.page(1), tx.held.get().waiting))
        said = {
            each.message.id
            for each in newest
            if each.sender.charge is Charge.TOKEN and not each.message.pings
        }
        return said | {each.message.id for each in held if each.charge is Charge.TOKEN}

    def _connect(self, path: Path) -> sqlite3.Connection:
        self._connections.append(connect(path))
        return self._connections[-1]
