"""The database of one process on a PostgreSQL server: steps, questions, upkeep."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import TypeVar

import psycopg

from ollim_bot.kernel.base.errors import StorageError, WriteFailed
from ollim_bot.kernel.store.backend import ALONE, Backend
from ollim_bot.kernel.store.connection import Row, Statements
from ollim_bot.kernel.store.database_errors import (
    Busy,
    Damaged,
    NotLeading,
    OtherSchema,
    OutcomeUnknown,
)
from ollim_bot.kernel.store.file_store import Malformed
from ollim_bot.kernel.store.mirrors import Mirrors
from ollim_bot.kernel.store.schema import FILE_TABLES, SCHEMA
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot_standby.file_layout import FileRows
from ollim_bot_standby.held_lease import HeldLease
from ollim_bot_standby.machines import OnStandby, ServerGone
from ollim_bot_standby.postgres.connection import (
    Address,
    Connection,
    ConnectTo,
    PostgresStatements,
    connect_to,
    in_dialect,
    is_idle,
    is_lost,
    make_lease_row,
    migrate,
    reason_of,
    schema_of,
    translated,
)
from ollim_bot_standby.postgres.search import TsvectorIndex
from ollim_bot_standby.stored_files import StoredFiles

R = TypeVar("R")
Work = Callable[[Statements], R]
MayLead = Callable[[], bool]

_CHANNEL = "ollim_commits"
# In seconds: a commit whose answer was lost is looked up for so long, unless the process waits.
LOOK_UP_FOR, _BETWEEN_LOOKS = 7.0, 0.2
# What no part of the program waits for.
_UNSEEN = FILE_TABLES | {"mirrors", "meta"}
# In seconds: a process that leads and cannot open a connection for so long lets another one lead.
_LONGEST_WAIT = 30.0
_QUESTION = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


def open_postgres(
    address: Address,
    now: Callable[[], datetime],
    *,
    lease: HeldLease | None,
    mirrors: Mirrors | None = None,
    files: StoredFiles | None = None,
    connect: ConnectTo = connect_to,
    may_lead: MayLead | None = None,
) -> PostgresDatabase:
    """The database at `address`, ready for the steps of `lease`; without one, for questions only.

    Only the holder of the lease migrates. Raises `StorageError`.
    """
    database = PostgresDatabase(
        address, now, lease=lease, mirrors=mirrors, files=files, connect=connect, may_lead=may_lead
    )
    try:
        database.prepare()
    except BaseException:  # also if the lease is lost: no connection may stay open
        database.close()
        raise
    return database


@dataclass(eq=False)
class PostgresDatabase:
    """Runs steps one after another, each in a transaction of its own, from any thread.

    A step locks the lease row first and writes its own id into it: a step of an older epoch is
    refused, and a commit whose answer was lost is found, or certainly did not happen.

    With `may_lead`, a server that is away is waited for: steps and questions go on when it is back,
    or end the process with `NotLeading` once it may not lead any more. Without it they are tried
    twice, and raise `ServerGone`.
    """

    address: Address
    now: Callable[[], datetime]
    _: KW_ONLY
    lease: HeldLease | None
    mirrors: Mirrors | None = None
    files: StoredFiles | None = None
    connect: ConnectTo = connect_to
    look_up_for: float = LOOK_UP_FOR
    may_lead: MayLead | None = None
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self.path = self.address.place
        self.is_writable = self.lease is not None
        self.sharing = ALONE
        self._sender = secrets.token_hex(8)
        self._lock = threading.RLock()
        self._reading = threading.Lock()
        self._connection: Connection | None = None
        self._reader: Connection | None = None
        self._over: SystemExit | None = None
        self._has_missed = False
        self._is_closed = False

    def prepare(self) -> None:
        """Bring the tables and the search index up to date, or check that they are."""
        with self._lock:  # a connection that is just opened is closed too
            found = self._until_answered(self._found_schema)
        if self.lease is None:
            if found < SCHEMA:
                raise OtherSchema(self.path, found, SCHEMA)
            return
        self._until_answered(lambda: self._attempt(self._prepare_tables))
        self.take_over_files()
        if self.mirrors is not None:
            self.mirrors.follow(self._read_row, set(), [])

    def _found_schema(self) -> int:
        connection = self._connected()
        make_lease_row(connection, self.path)
        try:
            return schema_of(connection)
        except psycopg.Error as refused:
            raise translated(self.path, refused) from refused

    def take_over_files(self) -> None:
        """Lay the files of the table out, or store those of this disk, before anything is read."""
        if self.files is not None and self.lease is not None:
            self.files.take_over(self.query_rows, self.lease.epoch)
            self.run_rows(lambda rows: FileRows(rows).drop_unused_contents())

    def run(self, step: Step[R]) -> R:
        return self.run_noting(step)[0]

    def run_noting(self, step: Step[R]) -> tuple[R, frozenset[str]]:
        return self.run_rows(lambda statements: step(self._transaction(statements)))

    def run_rows(self, work: Work[R]) -> tuple[R, frozenset[str]]:
        """As `run_noting`, for rows that no repository offers."""
        with self._lock:
            if self._over is not None:
                raise self._over
            try:
                # Store the changed files that do not go into one step, in steps of their own.
                while self.files is not None and self.files.find():
                    self._until_answered(lambda: self._attempt(lambda _: None))
                result, statements = self._until_answered(lambda: self._attempt(work))
                if self.files is not None:
                    self.files.settle_look()
            except WriteFailed as refused:
                self.is_writable = self.is_writable and isinstance(refused, Busy)
                raise
            except (NotLeading, OutcomeUnknown) as over:
                self._over = over
                raise
            except Malformed as wrong:
                raise Damaged(self.path, str(wrong)) from wrong
            self.is_writable = True
            if self.mirrors is not None:
                self.mirrors.follow(self._read_row, statements.changed, statements.lines)
            return result, frozenset(statements.changed - _UNSEEN)

    def query(self, question: Step[R]) -> R:
        return self.query_rows(lambda statements: question(self._transaction(statements)))

    def query_rows(self, question: Work[R]) -> R:
        """As `query`, for rows that no repository offers."""
        with self._reading:
            return self._until_answered(lambda: self._answer(question))

    def note_version(self) -> bool:
        """As the server has told it: nothing is asked."""
        with self._lock:
            try:
                connection = self._connected()
                told = [each.payload for each in connection.notifies(timeout=0)]
            except (psycopg.Error, StorageError):
                return False
            is_new = self._has_missed or any(each != self._sender for each in told)
            self._has_missed = False
            return is_new

    def tidy(self, *, is_idle: bool) -> None:  # noqa: ARG002  # a server tidies by itself
        # End the transaction of the last question, which no answer has waited for.
        if self._reading.acquire(blocking=False):
            try:
                if self._reader is not None:
                    _roll_back(self._reader)
            finally:
                self._reading.release()
        with self._lock:
            if self.mirrors is not None and not self.mirrors.are_current:
                self.mirrors.follow(self._read_row, set(), [])
            # Such an edit changes no folder, and may not wait for the next step.
            if self.files is not None and self._over is None:
                self.files.look_everywhere()
                if self.files.find() or self.files.has_changes:
                    with suppress(StorageError):  # the next look finds it again
                        self.run_rows(lambda _: None)
                else:
                    self.files.settle_look()

    def recovered(self) -> Backend:
        with suppress(StorageError):
            self.run(lambda tx: tx.meta.remove("probe"))
        return self

    def copy_if_due(self) -> None:
        """The copies of a server are its own."""

    def close(self) -> None:
        with self._lock, self._reading:
            self._is_closed = True
            for connection in (self._reader, self._connection):
                if connection is not None:
                    connection.close()

    def _transaction(self, statements: Statements) -> Transaction:
        return Transaction(statements, self.now(), TsvectorIndex)

    def _prepare_tables(self, statements: PostgresStatements) -> None:
        connection = self._connected()
        statements.send_waiting()
        try:
            migrate(connection, self.path)
        except psycopg.Error as refused:
            raise translated(self.path, refused) from refused
        tx = self._transaction(statements)
        tx.marks.take_over()
        tx.messages.prepare_search(is_supported=True)
        if self.mirrors is not None:
            self.mirrors.replace(statements)

    def _until_answered(self, ask: Callable[[], R]) -> R:
        """Ask, and again after each `ServerGone`: nothing was committed, and a connection is new.

        A server that takes connections and breaks each one raises `ServerGone` in the end.
        """
        began, is_second = time.monotonic(), False
        while True:
            try:
                return ask()
            except ServerGone as gone:
                if self._is_closed or (self.may_lead is None and is_second):
                    raise
                if self.may_lead is not None and is_second:
                    is_too_long = time.monotonic() > began + _LONGEST_WAIT
                    if is_too_long and self._takes_connections():
                        raise gone
                    if is_too_long or not self.may_lead():
                        raise NotLeading(self.path, gone.why) from gone
                    self.sleep(_BETWEEN_LOOKS)
            is_second = True

    def _takes_connections(self) -> bool:
        try:
            self._opened().close()
        except ServerGone:
            return False
        return True

    def _attempt(self, work: Callable[[PostgresStatements], R]) -> tuple[R, PostgresStatements]:
        """Run the step once. A `ServerGone` means that nothing of it was committed."""
        if self.lease is None:
            raise OnStandby(self.path)
        connection, step_id = self._connected(), secrets.token_hex(8)
        if not is_idle(connection):
            raise AssertionError("a step must not begin another one")
        statements = self._begin(connection, self.lease, step_id)
        try:
            if self.files is not None:
                self.files.write(statements)
            result = work(statements)
            if self.mirrors is not None:
                self.mirrors.prune(statements, sorted(statements.touched))
            if statements.failure is not None:
                raise statements.failure
        except BaseException:  # also if cancelled: no transaction may stay open
            _roll_back(connection)
            raise
        self._commit(connection, self.lease, step_id, statements)
        if self.files is not None:
            self.files.settle()
        return result, statements

    def _begin(self, connection: Connection, lease: HeldLease, step_id: str) -> PostgresStatements:
        lock = (
            f"UPDATE lease SET step = '{step_id}'"
            f" WHERE holder = '{lease.holder}' AND epoch = {lease.epoch} RETURNING epoch"
        )
        return PostgresStatements(connection, self.path, ("BEGIN", lock), self._check_lease)

    def _check_lease(self, locked: Row | None) -> None:
        if locked is None:
            raise NotLeading(self.path)

    def _commit(
        self, connection: Connection, lease: HeldLease, step_id: str, statements: PostgresStatements
    ) -> None:
        try:
            statements.commit(f"NOTIFY {_CHANNEL}, '{self._sender}'")
        except psycopg.Error as refused:
            if not is_lost(connection):
                _roll_back(connection)
                raise translated(self.path, refused) from refused
            if not self._is_committed(lease, step_id, reason_of(refused)):
                raise ServerGone(self.path, reason_of(refused)) from refused
        except NotLeading:
            _roll_back(connection)
            raise

    def _is_committed(self, lease: HeldLease, step_id: str, reason: str) -> bool:
        """Look up a commit whose answer was lost, once its transaction has ended on the server."""
        until = time.monotonic() + self.look_up_for
        while True:
            with suppress(StorageError, psycopg.Error):
                row = (
                    self._connected()
                    .execute("SELECT holder, epoch, step FROM lease FOR UPDATE")
                    .fetchone()
                )
                if row is None or row[:2] != (lease.holder, lease.epoch):
                    raise NotLeading(self.path)
                return bool(row[2] == step_id)
            is_over = time.monotonic() > until if self.may_lead is None else not self.may_lead()
            if is_over:
                raise OutcomeUnknown(self.path, reason)
            self.sleep(_BETWEEN_LOOKS)

    def _answer(self, question: Work[R]) -> R:
        if self._reader is None or is_lost(self._reader):
            self._reader = self._opened()
        reader = self._reader
        begin = (_QUESTION,) if is_idle(reader) else ("ROLLBACK", _QUESTION)
        try:
            return question(PostgresStatements(reader, self.path, begin))
        except psycopg.Error as refused:
            raise translated(self.path, refused) from refused
        except Malformed as wrong:
            raise Damaged(self.path, str(wrong)) from wrong

    def _read_row(self, sql: str, *arguments: str) -> Row:
        try:
            row = self._connected().execute(in_dialect(sql), arguments).fetchone()
        except psycopg.Error as refused:
            raise translated(self.path, refused) from refused
        return row or ()

    def _connected(self) -> Connection:
        """The connection of the steps, which also hears of the commits of others."""
        if self._connection is None or is_lost(self._connection):
            self._has_missed = self._connection is not None
            self._connection = self._opened()
            try:
                self._connection.execute(f"LISTEN {_CHANNEL}")
            except psycopg.Error as refused:
                raise translated(self.path, refused) from refused
        return self._connection

    def _opened(self) -> Connection:
        if self._is_closed:
            raise ServerGone(self.path, "the connection was closed")
        return self.connect(self.address)


def _roll_back(connection: Connection) -> None:
    if not is_lost(connection) and not is_idle(connection):
        with suppress(psycopg.Error):
            connection.execute("ROLLBACK")
