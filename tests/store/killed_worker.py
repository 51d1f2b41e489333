"""Run as a program: in one child process per moment, commit steps until it is killed at that one.

Arguments: a folder, which gets one data directory per moment, and the number of moments. Each child
appends a line to `acknowledged` for every step that returned. The moments are those before and
after each COMMIT and before each step of the disk that writes a mirror.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.store.places import NOW, Place

from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.sessions import SessionChange, SessionEvent, SessionId
from ollim_bot.store.connection import connect
from ollim_bot.store.files import OsDisk
from ollim_bot.store.opening import open_database
from ollim_bot.store.transaction import Transaction
from ollim_bot.testing.disks import SteppedDisk


class Moments:
    """Kills this process at the moment of the given number."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.are_counted = False

    def come(self, *_: object) -> None:
        if self.are_counted:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class MortalConnection(sqlite3.Connection):
    come: Callable[[], None]

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if sql != "COMMIT":
            return super().execute(sql, *arguments)
        self.come()
        result = super().execute(sql, *arguments)
        self.come()
        return result


def step(tx: Transaction, number: int) -> None:
    """One change in each kind of table; their numbers must always agree."""
    tx.session.put(SessionId(f"session-{number}"))
    tx.memory.put({"count": number})
    tx.ledger.append(LedgerRow(NOW, "noted"))
    tx.messages.add(ChatMessage(MessageId(f"m{number}"), NOW, Author.PROGRAM, "hello"))
    tx.session_history.append(
        SessionEvent(SessionId(f"session-{number}"), SessionChange.CREATED, NOW)
    )


def live(place: Place, moments: Moments) -> None:
    def mortal(path: Path) -> sqlite3.Connection:
        connect(path).close()
        connection = sqlite3.connect(path, isolation_level=None, factory=MortalConnection)
        connection.come = moments.come
        connection.execute("PRAGMA wal_autocheckpoint=0")
        return connection

    database = open_database(
        place.paths,
        lambda: NOW,
        is_holder=True,
        report=lambda _: None,
        disk=SteppedDisk(OsDisk(), moments.come),
        connection=mortal,
    )
    moments.are_counted = True
    with (place.root / "acknowledged").open("ab", buffering=0) as acknowledged:
        for number in range(1, 100):
            database.run(lambda tx, number=number: step(tx, number))  # type: ignore[misc]
            acknowledged.write(b"%d\n" % number)


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    for number in range(1, count + 1):
        child = os.fork()
        if child == 0:
            live(Place(folder / str(number)), Moments(number))
            os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"the process at moment {number} was not killed"


if __name__ == "__main__":
    main()
