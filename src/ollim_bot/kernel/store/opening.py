"""Opens the database of a data directory for steps, and as an image where it cannot be written."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

from ollim_bot.kernel.base.errors import StorageError, WriteFailed
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.backend import Backend, SharedBackend
from ollim_bot.kernel.store.change_rows import note_settings
from ollim_bot.kernel.store.connection import (
    Connect,
    SqliteStatements,
    connect,
    connect_for_reading,
    connect_in_memory,
    read_row,
)
from ollim_bot.kernel.store.copies import AfterReturn, copy_database, mend, settle_return
from ollim_bot.kernel.store.database import Ballast, Database
from ollim_bot.kernel.store.database_errors import (
    Busy,
    Damaged,
    NoDatabase,
    OtherSchema,
    translated,
)
from ollim_bot.kernel.store.file_store import Malformed, StoreProblem, parse_json, versioned
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.store.mirrors import Mirrors
from ollim_bot.kernel.store.questions import DATABASE, check_schema
from ollim_bot.kernel.store.records import stored_record
from ollim_bot.kernel.store.schema import SCHEMA, migrate, schema_of
from ollim_bot.kernel.store.search_index import can_index
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.changes import Changer
from ollim_bot.kernel.values.ports import Disk, Journal
from ollim_bot.kernel.values.runtime_config import MADE_BEFORE_DAILY_LIMIT, parse_config

R = TypeVar("R")


class RowsInMemory(SharedBackend):
    """Takes steps on rows in memory: nothing of them stays. `path` is where they came from."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, now: Callable[[], datetime]
    ) -> None:
        self.path = path
        self._now = now
        self._lock = threading.RLock()
        self._connection = connection

    @classmethod
    def copied(cls, source: Path, now: Callable[[], datetime]) -> RowsInMemory:
        """The rows of a file. Raises `StorageError` if it cannot be read, or has another schema."""
        try:
            with closing(connect_for_reading(source)) as found:
                check_schema(source, schema_of(found))
                connection = connect_in_memory()
                found.backup(connection)
        except sqlite3.Error as refused:
            raise translated(source, refused) from refused
        return cls(connection, source, now)

    @classmethod
    def empty(cls, now: Callable[[], datetime]) -> RowsInMemory:
        connection = connect_in_memory()
        connection.execute("BEGIN")
        migrate(connection)
        connection.execute("COMMIT")
        return cls(connection, Path(":memory:"), now)

    def run_noting(self, step: Step[R]) -> tuple[R, frozenset[str]]:
        return self._asked(step, "COMMIT")

    def query(self, question: Step[R]) -> R:
        return self._asked(question, "ROLLBACK")[0]

    def _asked(self, step: Step[R], end: str) -> tuple[R, frozenset[str]]:
        with self._lock:
            statements = SqliteStatements(self._connection, self.path)
            self._connection.execute("BEGIN")
            try:
                result = step(Transaction(statements, self._now()))
                self._connection.execute(end)
            except Malformed as wrong:
                raise Damaged(self.path, str(wrong)) from wrong
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            return result, frozenset(statements.changed)

    def check_may_change(self) -> None:
        """Always: no other process has these rows."""

    def close(self) -> None:
        with self._lock:
            self._connection.close()


class DatabaseImage(RowsInMemory):
    """Answers questions from memory and refuses every step, until the database is `recovered`.

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
        super().__init__(image, path, now)
        self._reason = refusal.reason
        self._open_again = open_again

    def recovered(self) -> Backend:
        """The database, if it can be written now; else this image."""
        try:
            return self._open_again()
        except StorageError:
            return self

    def run_noting(self, _: Step[R]) -> NoReturn:
        raise WriteFailed(self.path, self._reason)


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


BALLAST_FILE = "ballast"
# In the facts about the database: whether the owner is to be told that there is no daily limit.
DAILY_LIMIT_NOTICE = "daily_limit_notice"
NOTICE_DUE, NOTICE_TOLD = "due", "told"

Report = Callable[[StoreProblem], None]


def open_database(
    paths: DataPaths,
    now: Callable[[], datetime],
    *,
    is_holder: bool,
    report: Report,
    disk: Disk | None = None,
    connection: Connect = connect,
    journal: Journal | None = None,
) -> Database:
    """The database of `paths`, ready for steps; `report` gets what a person should know.

    The holder of the instance lock repairs it, creates it, migrates it and adopts hand edits of the
    mirrors. In any other process, work that is left for the holder raises `OtherSchema` or
    `NoDatabase`.
    """
    ballast = Ballast(paths.state / BALLAST_FILE)
    files = disk or OsDisk()
    mirrors = Mirrors(paths, files, report, journal)

    def opened() -> Database:
        if is_holder:
            mend(path, now(), report)
            _prepare(path, now(), mirrors, connection)
        else:
            _check(path)
        return Database(
            path, now, mirrors=mirrors, ballast=ballast, is_holder=is_holder, connection=connection
        )

    path = paths.state / DATABASE
    try:
        database = opened()
    except WriteFailed as refused:
        # Even opening the database needs some room.
        if isinstance(refused, Busy) or not is_holder or not ballast.give_up():
            raise
        database = opened()
    if is_holder:
        database.look_for_room()
    return database


def open_for_bot(
    paths: DataPaths,
    now: Callable[[], datetime],
    *,
    report: Report,
    tell: Callable[[Transaction, AfterReturn], None],
    disk: Disk | None = None,
    connection: Connect = connect,
    journal: Journal | None = None,
) -> Backend:
    """As `open_database` for the holder; settles a return to a copy, with `tell` in the same step.

    On a disk that cannot be written, returns an image of the database instead. Raises
    `StorageError` if there is no database yet, or none that can be read.
    """

    def opened() -> Database:
        heartbeat = HeartbeatFile(paths, disk).read()
        database = open_database(
            paths,
            now,
            is_holder=True,
            report=report,
            disk=disk,
            connection=connection,
            journal=journal,
        )
        try:
            database.run(lambda tx: settle(tx, heartbeat, tell))
        except StorageError:
            database.close()
            raise
        return database

    try:
        return opened()
    except Busy:
        raise
    except WriteFailed as refused:
        return DatabaseImage(paths.state / DATABASE, now, refused, opened)


def settle(
    tx: Transaction, heartbeat: datetime | None, tell: Callable[[Transaction, AfterReturn], None]
) -> None:
    """Settle a return to a copy or a backup, if there was one, and tell of it in the same step."""
    returned = settle_return(tx, heartbeat)
    if returned is not None:
        tell(tx, returned)


def _check(path: Path) -> None:
    if not path.exists():
        raise NoDatabase(path)
    with closing(sqlite3.connect(path)) as connection:
        try:
            found = schema_of(connection)
        except sqlite3.Error as refused:
            raise translated(path, refused) from refused
    check_schema(path, found)


def _prepare(path: Path, now: datetime, mirrors: Mirrors, connect_to: Connect) -> None:
    """The work that only the holder of the instance lock may do, in one transaction."""
    with closing(connect_to(path)) as connection:
        found = schema_of(connection)
        if found > SCHEMA:
            raise OtherSchema(path, found, SCHEMA)
        if 0 < found < SCHEMA:
            copy_database(path, now)
        statements = SqliteStatements(connection, path)
        try:
            connection.execute("BEGIN IMMEDIATE")
            if found < SCHEMA:
                migrate(connection)
            _take_up(Transaction(statements, now), mirrors, is_new=found == 0)
            connection.execute("COMMIT")
        except sqlite3.Error as refused:
            raise translated(path, refused) from refused
        mirrors.follow(partial(read_row, connection, path), statements.changed, [])


def _take_up(tx: Transaction, mirrors: Mirrors, *, is_new: bool) -> None:
    """Take up what older versions and hands have left."""
    tx.marks.take_over()
    config = tx.config.get()
    mirrors.reconcile(tx.statements)
    if not is_new:
        note_settings(tx.changes, config, tx.config.get(), Changer.HAND, tx.now)
    if tx.meta.get(DAILY_LIMIT_NOTICE) is None:
        # A directory that is not new gets no daily limit, once; the owner is told of it.
        is_older = not is_new or tx.session.get() is not None
        if is_older:
            stored = stored_record(tx.statements, "config")
            values = {} if stored is None else versioned(parse_json(stored))
            tx.config.put(parse_config({**values, MADE_BEFORE_DAILY_LIMIT: True})[0])
        tx.meta.put(DAILY_LIMIT_NOTICE, NOTICE_DUE if is_older else NOTICE_TOLD)
    tx.messages.prepare_search(is_supported=can_index())
