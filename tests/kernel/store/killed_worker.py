"""Run as a program: commit steps in child processes, and kill each at another crash point.

Arguments: a folder, which gets one data directory per crash point, and the number of crash points.
Each child appends a line to `acknowledged` for every step that returned. A crash point is before
and after each COMMIT, and before each disk step that writes a mirror.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from devtools.doubles.disks import SteppedDisk
from tests.kernel.store.scene import NOW, StoreScene

from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.store.connection import Connect, connect
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot.kernel.values.sessions import SessionChange, SessionEvent


class CrashPoint:
    """Kills this process when `reach` is called for the given number of times while armed."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.is_armed = False

    def reach(self, *_: object) -> None:
        if self.is_armed:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class CrashingConnection(sqlite3.Connection):
    """Reaches a crash point before and after each COMMIT."""

    reach: Callable[[], None]

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if sql != "COMMIT":
            return super().execute(sql, *arguments)
        self.reach()
        result = super().execute(sql, *arguments)
        self.reach()
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


def connecting(crash_point: CrashPoint) -> Connect:
    """Opens connections that reach the crash point around each COMMIT."""

    def connected(path: Path) -> sqlite3.Connection:
        connect(path).close()
        connection = sqlite3.connect(
            path, isolation_level=None, factory=CrashingConnection, check_same_thread=False
        )
        connection.reach = crash_point.reach
        connection.execute("PRAGMA wal_autocheckpoint=0")
        return connection

    return connected


def commit_until_killed(scene: StoreScene, crash_point: CrashPoint) -> None:
    database = open_database(
        scene.paths,
        lambda: NOW,
        is_holder=True,
        report=lambda _: None,
        disk=SteppedDisk(OsDisk(), crash_point.reach),
        connection=connecting(crash_point),
    )
    crash_point.is_armed = True
    with (scene.root / "acknowledged").open("ab", buffering=0) as acknowledged:
        for number in range(1, 100):
            database.run(lambda tx, number=number: step(tx, number))  # type: ignore[misc]
            acknowledged.write(b"%d\n" % number)


def kill_at_each(live: Callable[[StoreScene, CrashPoint], None]) -> None:
    """Run `live` in one child process per crash point, which kills it."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    for number in range(1, count + 1):
        child = os.fork()
        if child == 0:
            live(StoreScene(folder / str(number)), CrashPoint(number))
            os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"the process at crash point {number} was not killed"


if __name__ == "__main__":
    kill_at_each(commit_until_killed)
