"""The database of one process, for callers without an event loop: steps, questions, upkeep."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from ollim_bot.kernel.base.errors import StorageError, Unreadable, WriteFailed
from ollim_bot.kernel.store.backend import ALONE, Backend
from ollim_bot.kernel.store.connection import (
    BUSY_MILLISECONDS,
    Connect,
    SqliteStatements,
    Statements,
    connect,
    connect_for_reading,
    read_row,
)
from ollim_bot.kernel.store.copies import copy_database, is_copy_due, suspect
from ollim_bot.kernel.store.database_errors import (
    Busy,
    Damaged,
    DiskFull,
    OutcomeUnknown,
    is_not_committed,
    translated,
)
from ollim_bot.kernel.store.file_store import Malformed
from ollim_bot.kernel.store.files import PRIVATE, OsDisk, write_atomically
from ollim_bot.kernel.store.mirrors import Mirrors
from ollim_bot.kernel.store.transaction import Step, Transaction

R = TypeVar("R")

BALLAST = 1024 * 1024
_MOST_WAL_BYTES = 1000 * 4096


class Ballast:
    """A file that is deleted when the disk is full, so that ends can still be written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def make(self) -> None:
        """Create the file. Raises `WriteFailed` if there is no room."""
        if not self._path.exists():
            # Random content: a compressing file system would gain no room from deleting zeros.
            write_atomically(OsDisk(), self._path, os.urandom(BALLAST), PRIVATE)

    def give_up(self) -> bool:
        """Delete the file; False if there was none."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True


def _probe(tx: Transaction) -> None:
    tx.meta.put("probe", "")
    tx.meta.remove("probe")


class Database:
    """Runs steps one after another, each in a transaction of its own, from any thread.

    `path` exists and has the schema of this version: `open_database` ensures that. `is_holder` says
    that this process holds the instance lock; only the holder checkpoints.
    """

    sharing = ALONE

    def __init__(
        self,
        path: Path,
        now: Callable[[], datetime],
        *,
        mirrors: Mirrors | None = None,
        ballast: Ballast | None = None,
        is_holder: bool = False,
        connection: Connect = connect,
    ) -> None:
        self.path = path
        self.is_holder = is_holder
        self.is_writable = True
        self._now = now
        self._mirrors = mirrors
        self._ballast = ballast
        self._lock = threading.RLock()
        self._reading = threading.Lock()
        self._connection = connection(path)
        self._read_row = partial(read_row, self._connection, path)
        self._reader: sqlite3.Connection | None = None
        self._unknown: OutcomeUnknown | None = None
        self._is_closed = False
        self._was_busy = False
        self._has_changed = True
        self._wal = path.with_name(f"{path.name}-wal")
        self._seen_version = self._data_version()

    def run(self, step: Step[R]) -> R:
        return self.run_noting(step)[0]

    def run_noting(self, step: Step[R]) -> tuple[R, frozenset[str]]:
        with self._lock:
            if self._unknown is not None:
                raise self._unknown
            try:
                try:
                    result, statements = self._committed(step, ())
                except DiskFull:
                    if self._ballast is None or not self._ballast.give_up():
                        raise
                    self.is_writable = False
                    result, statements = self._committed(step, ())
            except WriteFailed as refused:
                self._was_busy = isinstance(refused, Busy)
                self.is_writable = self.is_writable and self._was_busy
                raise
            except Damaged:
                suspect(self.path)
                raise
            except Malformed as wrong:
                raise Damaged(self.path, str(wrong)) from wrong
            self._was_busy = False
            self._has_changed = self._has_changed or bool(statements.changed)
            if self._mirrors is not None:
                self._mirrors.follow(self._read_row, statements.changed, statements.lines)
            return result, frozenset(statements.changed - {"mirrors", "meta"})

    def query(self, question: Step[R]) -> R:
        with self._reading:
            if self._is_closed:
                raise Unreadable(self.path, "it is closed, since the bot ends")
            if self._reader is None:
                self._reader = connect_for_reading(self.path)
            try:
                self._reader.execute("BEGIN")
                return question(Transaction(SqliteStatements(self._reader, self.path), self._now()))
            except sqlite3.Error as refused:
                raise translated(self.path, refused) from refused
            except Damaged:
                suspect(self.path)
                raise
            except Malformed as wrong:
                raise Damaged(self.path, str(wrong)) from wrong
            finally:
                if self._reader.in_transaction:
                    self._reader.execute("ROLLBACK")

    def note_version(self) -> bool:
        with self._lock:
            version = self._data_version()
            is_new, self._seen_version = version != self._seen_version, version
            return is_new

    def checkpoint(self) -> None:
        """Move the log into the database, as far as readers and other processes allow."""
        with self._lock, suppress(sqlite3.Error):
            if self.is_holder and self._wal_size():
                # Do not wait for a reader of another process: steps would wait too.
                self._connection.execute("PRAGMA busy_timeout=0")
                try:
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                finally:
                    self._connection.execute(f"PRAGMA busy_timeout={BUSY_MILLISECONDS}")

    def compact(self) -> None:
        """Write the database anew, without free pages and log. Raises `StorageError`."""
        with self._lock:
            try:
                self._connection.execute("VACUUM")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.Error as refused:
                raise translated(self.path, refused) from refused

    def tidy(self, *, is_idle: bool) -> None:
        """Write late mirrors; checkpoint if `is_idle`, or if the log has grown large."""
        with self._lock:
            if self._mirrors is not None and not self._mirrors.are_current:
                self._mirrors.follow(self._read_row, set(), [])
        if is_idle or (self.is_holder and self._wal_size() > _MOST_WAL_BYTES):
            self.checkpoint()

    def look_for_room(self) -> bool:
        """Test whether the disk takes writes again, and restore the ballast."""
        try:
            if self._ballast is not None:
                self._ballast.make()
            if not self.is_writable:
                self.run(_probe)
        except (OSError, StorageError):
            self.is_writable = False
        else:
            self.is_writable = True
        return self.is_writable

    def recovered(self) -> Backend:
        self.look_for_room()
        return self

    def copy_if_due(self) -> None:
        """Make an automatic copy if the newest is an hour old and something changed since."""
        now = self._now()
        if not (self.is_holder and self._has_changed and self.is_writable):
            return
        if is_copy_due(self.path, now):
            self._has_changed = False
            copy_database(self.path, now)

    def close(self) -> None:
        """Close the connection. Further calls are harmless; steps fail from now on."""
        with self._lock, self._reading:
            if self._is_closed:
                return
            self._is_closed = True
            # Another process that holds the database is not waited for a second time.
            can_write = self._unknown is None and not self._was_busy
            if self._mirrors is not None and can_write:
                # After this clean end, only a person can have changed a file that differs.
                with suppress(StorageError):
                    self._committed(lambda _: None, self._mirrors.written_names())
            for connection in (self._reader, self._connection):
                if connection is not None:
                    with suppress(sqlite3.Error):
                        connection.close()

    def _committed(self, step: Step[R], pruned: list[str] | tuple[()]) -> tuple[R, Statements]:
        statements = SqliteStatements(self._connection, self.path)
        if self._connection.in_transaction:
            raise AssertionError("a step must not begin another one")
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as refused:
            raise translated(self.path, refused) from refused
        try:
            result = step(Transaction(statements, self._now()))
            if self._mirrors is not None:
                self._mirrors.prune(statements, [*pruned, *sorted(statements.changed)])
            if statements.failure is not None:
                raise statements.failure
        except BaseException:  # also if cancelled: no transaction may stay open
            self._roll_back()
            raise
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as refused:
            if is_not_committed(refused):
                self._roll_back()
                raise translated(self.path, refused) from refused
            self._unknown = OutcomeUnknown(self.path, str(refused))
            raise self._unknown from refused
        return result, statements

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def _data_version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def _wal_size(self) -> int:
        try:
            return self._wal.stat().st_size
        except OSError:
            return 0
