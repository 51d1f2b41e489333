"""Connections to the database file, and the statements of one transaction."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from ollim_bot.kernel.base.errors import StorageError, WriteFailed
from ollim_bot.kernel.store.database_errors import translated

Value = str | int | float | bytes | None
Row = tuple[Any, ...]
Connect = Callable[[Path], sqlite3.Connection]

BUSY_MILLISECONDS = 5000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def connect(path: Path) -> sqlite3.Connection:
    """Open the database for writing; a new file is closed to others before it is opened."""
    _create_private(path)
    connection = _opened(path)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("PRAGMA mmap_size=0")
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync=1")
            connection.execute("PRAGMA checkpoint_fullfsync=1")
    except sqlite3.Error as refused:
        connection.close()
        raise translated(path, refused) from refused
    return connection


def connect_for_reading(path: Path) -> sqlite3.Connection:
    """Open the database without any change, even to the log that a crash left."""
    log = path.with_name(f"{path.name}-wal")
    # A writing connection that is closed last moves the log into the database and removes it. A
    # read-only connection leaves an empty log behind where there was none.
    connection = _opened(path, "?mode=ro" if _has_content(log) else "")
    connection.execute("PRAGMA mmap_size=0")
    connection.execute("PRAGMA query_only=1")
    return connection


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def connect_in_memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


def _opened(path: Path, options: str = "") -> sqlite3.Connection:
    try:
        return sqlite3.connect(
            f"{path.absolute().as_uri()}{options}",
            timeout=BUSY_MILLISECONDS / 1000,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
    except sqlite3.Error as refused:
        raise translated(path, refused) from refused


def _create_private(path: Path) -> None:
    # SQLite gives its other files the mode of this one.
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as refused:
        reason = refused.strerror or str(refused)
        raise WriteFailed(path, f"could not be made: {reason}.") from refused


def escaped(text: str) -> str:
    """Encode `text` as reversible ASCII: SQLite refuses half a surrogate pair."""
    is_plain = text.isascii() and text.isprintable() and "\\" not in text
    return text if is_plain else json.dumps(text)[1:-1]


def unescaped(stored: str) -> str:
    return str(json.loads(f'"{stored}"')) if "\\" in stored else stored


def microseconds(moment: datetime) -> int:
    """A moment as the number that rows are indexed by."""
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(number: int) -> datetime:
    """The inverse of `microseconds`, in UTC."""
    return _EPOCH + number * _MICROSECOND


def read_row(connection: sqlite3.Connection, path: Path, sql: str, *arguments: Value) -> Row:
    """The one row of a query outside of any transaction. Raises `StorageError`."""
    try:
        found: Row = connection.execute(sql, arguments).fetchone()
    except sqlite3.Error as refused:
        raise translated(path, refused) from refused
    return found


class Statements(ABC):
    """The statements of one transaction. `?` stands for an argument in every dialect.

    The first statement that fails ends the transaction: all further ones raise the same error.
    `changed` names what the statements changed; `lines` are appended to the file of the session
    history after the commit.
    """

    def __init__(self) -> None:
        self.failure: StorageError | None = None
        self.changed: set[str] = set()
        self.lines: list[bytes] = []

    def rows(self, sql: str, *arguments: Value) -> list[Row]:
        return self._execute(sql, arguments)

    def row(self, sql: str, *arguments: Value) -> Row | None:
        found = self._execute(sql, arguments)
        return found[0] if found else None

    def number(self, sql: str, *arguments: Value) -> int:
        """The integer that a query returns; 0 for NULL and for no row."""
        found = self.row(sql, *arguments)
        return 0 if found is None or found[0] is None else int(found[0])

    def write(self, table: str, sql: str, *arguments: Value) -> list[Row]:
        """Run a statement that changes `table`; returns the rows of its RETURNING clause.

        Those who wait for a change of the table are not woken if the statement found no row.
        """
        return self._execute(sql, arguments, table)

    @property
    def touched(self) -> frozenset[str]:
        """As `changed`, with the tables of statements that have not run yet."""
        return frozenset(self.changed)

    @abstractmethod
    def _execute(self, sql: str, arguments: Sequence[Value], table: str = "") -> list[Row]:
        """Run a statement that may change `table`. Raises `StorageError`, and keeps it."""


class SqliteStatements(Statements):
    """No statement runs after one that failed: SQLite may have rolled back by itself, and would
    commit each further one alone.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__()
        self._connection = connection
        self._path = path

    def _execute(self, sql: str, arguments: Sequence[Value], table: str = "") -> list[Row]:
        if self.failure is not None:
            raise self.failure
        if not self._connection.in_transaction:
            raise AssertionError("a statement outside of its transaction")
        try:
            cursor = self._connection.execute(sql, arguments)
            found = cursor.fetchall()
            if table and cursor.rowcount:
                self.changed.add(table)
            return found
        except sqlite3.Error as refused:
            self.failure = translated(self._path, refused)
            raise self.failure from refused


@cache
def look_up(place: str) -> Any:
    """What a place such as `kernel.values.chat:ChatMessage` of this package names, imported now."""
    module, _, name = place.partition(":")
    return attrgetter(name)(import_module(f"ollim_bot.{module}"))
