"""A copy of the database in memory, for a start on a disk that cannot be written."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import NoReturn, TypeVar

from ollim_bot.errors import StorageError, WriteFailed
from ollim_bot.store.connection import Statements, connect_in_memory
from ollim_bot.store.database import Database, Step
from ollim_bot.store.errors import Damaged
from ollim_bot.store.file_store import Malformed
from ollim_bot.store.schema import SCHEMA, schema_of
from ollim_bot.store.transaction import Transaction

R = TypeVar("R")


class DatabaseImage:
    """Answers questions from memory and refuses every step, until `opened` returns the database.

    `open_again` opens the database, and raises `StorageError` as long as that is not possible.
    """

    is_writable = False

    def __init__(
        self,
        path: Path,
        now: Callable[[], datetime],
        refusal: WriteFailed,
        open_again: Callable[[], Database],
    ) -> None:
        self.path = path
        self._now = now
        self._reason = refusal.reason
        self._open_again = open_again
        self._lock = threading.Lock()
        self._connection = _image_of(path, refusal)

    def opened(self) -> Database | DatabaseImage:
        """The database, if it can be written now; else this image."""
        try:
            return self._open_again()
        except StorageError:
            return self

    def run_noting(self, _: Step[R]) -> NoReturn:
        raise WriteFailed(self.path, self._reason)

    def query(self, question: Step[R]) -> R:
        with self._lock:
            self._connection.execute("BEGIN")
            try:
                return question(Transaction(Statements(self._connection, self.path), self._now()))
            except Malformed as wrong:
                raise Damaged(self.path, str(wrong)) from wrong
            finally:
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        with self._lock:
            self._connection.close()


def _image_of(path: Path, refusal: WriteFailed) -> sqlite3.Connection:
    """Copy the database into memory; raises `refusal` if it is unreadable or of another version."""
    try:
        image = _copied(path)
    except sqlite3.Error:
        try:
            image = _copied_elsewhere(path)
        except (sqlite3.Error, OSError):
            raise refusal from None
    if schema_of(image) != SCHEMA:
        image.close()
        raise refusal
    return image


def _copied(path: Path) -> sqlite3.Connection:
    with closing(sqlite3.connect(path)) as source:
        # With this lock SQLite needs no file for the index of its log.
        source.execute("PRAGMA locking_mode=EXCLUSIVE")
        image = connect_in_memory()
        source.backup(image)
    return image


def _copied_elsewhere(path: Path) -> sqlite3.Connection:
    """Copy the files elsewhere first, because a read-only mount refuses the lock."""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("", "-wal"):
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{path}{suffix}", f"{folder}/{path.name}{suffix}")
        return _copied(Path(folder) / path.name)
