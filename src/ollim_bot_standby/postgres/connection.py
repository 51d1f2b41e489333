"""Connections to a PostgreSQL server, and the statements of one transaction there."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg import RawCursor
from psycopg.adapt import Transformer
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from ollim_bot.kernel.base.database_address import SAFE_MODE, is_on_this_machine
from ollim_bot.kernel.base.errors import StorageError, WrongInput
from ollim_bot.kernel.store.connection import Row, Statements, Value
from ollim_bot.kernel.store.database_errors import (
    Busy,
    Damaged,
    DatabaseReadOnly,
    DiskFailing,
    DiskFull,
    OtherSchema,
)
from ollim_bot.kernel.store.schema import MIGRATIONS, SCHEMA
from ollim_bot_standby.machines import ServerGone

Connection = psycopg.Connection[Row]
ConnectTo = Callable[["Address"], Connection]

# In seconds. A process that is frozen inside of a step keeps its locks no longer than this.
IDLE_IN_STEP = 3.0
_LOCK, _STATEMENT, _UNANSWERED, _CONNECT = 5.0, 10.0, 5.0, 5

_UNSAFE = (
    f"To another machine it must be {SAFE_MODE}: the conversation would go over the network for "
    "others to read"
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is; `place` names it in sentences, without its password."""

    conninfo: str
    place: Path


def parse_address(text: str) -> Address:
    """Read a PostgreSQL address. Raises `WrongInput`, which never repeats the text: it is a key.

    To another machine the connection is encrypted, and the server shows whose it is.
    """
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(text).items()}
    except psycopg.Error:
        raise WrongInput("DATABASE_URL is no address of a PostgreSQL server.") from None
    host = parts.get("hostaddr") or parts.get("host", "")
    if not is_on_this_machine(host):
        if parts.setdefault("sslmode", SAFE_MODE) != SAFE_MODE:
            raise WrongInput(f"DATABASE_URL has sslmode={parts['sslmode']}. {_UNSAFE}.")
        parts.setdefault("sslrootcert", "system")
    where = "this machine" if is_on_this_machine(host) else host
    named = Path(f"the PostgreSQL database {parts.get('dbname', 'of its user')} on {where}")
    return Address(make_conninfo(**parts), named)


def address_of_any(address: Address) -> Address:
    """The same servers, also those that are copies and cannot be written."""
    return replace(address, conninfo=make_conninfo(address.conninfo, target_session_attrs="any"))


def connect_to(address: Address, idle_in_step: float = IDLE_IN_STEP) -> Connection:
    """Open a connection that waits for nothing without an end. Raises `StorageError`."""
    try:
        connection: Connection = psycopg.connect(
            address.conninfo,
            autocommit=True,
            cursor_factory=RawCursor,
            connect_timeout=_CONNECT,
            tcp_user_timeout=_milliseconds(_UNANSWERED),
            keepalives_idle=int(_UNANSWERED),
            application_name="ollim-bot",
            client_encoding="UTF8",
        )
    except psycopg.Error as refused:
        raise ServerGone(address.place, reason_of(refused)) from refused
    try:
        mode = connection.info.get_parameters().get("sslmode")
        if not is_on_this_machine(connection.info.host) and mode != SAFE_MODE:
            connection.close()
            raise ServerGone(address.place, f"it has sslmode={mode}. {_UNSAFE}")
        connection.execute(_SETTINGS.format(idle=_milliseconds(idle_in_step)))
    except psycopg.Error as refused:
        connection.close()
        raise translated(address.place, refused) from refused
    return connection


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


# A commit that is answered is durable, also where the server was told otherwise.
_SETTINGS = f"""
SET idle_in_transaction_session_timeout = {{idle}};
SET lock_timeout = {_milliseconds(_LOCK)};
SET statement_timeout = {_milliseconds(_STATEMENT)};
SET tcp_user_timeout = {_milliseconds(_UNANSWERED)};
SET standard_conforming_strings = on;
SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = 'off'
"""

_GONE = ("08", "57P", "25P03", "53300", "28")
_BUSY = ("55P03", "57014", "40")
_FULL = ("53100", "53200")
_READ_ONLY = ("25006",)
_DAMAGED = ("XX001", "XX002")


def translated(place: Path, error: psycopg.Error) -> StorageError:
    """The error of the store that corresponds to what the server or the network reported."""
    state = error.sqlstate
    if state is None or state.startswith(_GONE):
        return ServerGone(place, reason_of(error))
    if state.startswith(_BUSY):
        return Busy(place)
    if state in _FULL:
        return DiskFull(place)
    if state in _READ_ONLY:
        return DatabaseReadOnly(place)
    if state in _DAMAGED:
        return Damaged(place, reason_of(error))
    return DiskFailing(place, reason_of(error))


def reason_of(error: psycopg.Error) -> str:
    """The first line of what went wrong; the lines below it repeat it for each address tried."""
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


def is_lost(connection: Connection) -> bool:
    """Whether the connection can be used no more."""
    return connection.closed or connection.broken


def is_idle(connection: Connection) -> bool:
    """Whether no transaction is open."""
    return connection.info.transaction_status is TransactionStatus.IDLE


# What waits goes to the server at this size; an answer of more rows than this is not kept.
_MOST_WAITING, _MOST_KEPT = 200_000, 100
_RETURNING = " RETURNING "
_WRITTEN = re.compile(r"(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)")


@lru_cache(1000)
def _words(sql: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", sql))


def _parts(sql: str) -> list[str]:
    """The pieces of the statement around its arguments."""
    return sql.replace("instr(", "strpos(").split("?")


@lru_cache(1000)
def in_dialect(sql: str) -> str:
    """A statement of the repositories in the words of PostgreSQL."""
    first, *others = _parts(sql)
    return first + "".join(f"${number}{part}" for number, part in enumerate(others, 1))


class Statement(NamedTuple):
    """`table` is empty for a question."""

    sql: str
    arguments: Sequence[Value] = ()
    table: str = ""


class PostgresStatements(Statements):
    """The statements of one transaction, in as few round trips as they need.

    A statement that returns nothing waits for the next one that does, or for the commit. A question
    that is repeated is answered from memory until a table that it names may have changed.
    `begin` begins the transaction; its last statement is checked by `check` before any row returns.

    The server runs nothing more in a transaction after a statement that failed.
    """

    def __init__(
        self,
        connection: Connection,
        place: Path,
        begin: Sequence[str],
        check: Callable[[Row | None], None] = lambda _: None,
    ) -> None:
        super().__init__()
        self._connection = connection
        self._place = place
        self._begin = begin
        self._check = check
        self._has_begun = False
        self._transformer = Transformer(connection)
        self._waiting: list[Statement] = []
        self._size = 0
        self._answers: dict[tuple[str, Sequence[Value]], list[Row]] = {}

    @property
    def touched(self) -> frozenset[str]:
        return frozenset(self.changed).union(each.table for each in self._waiting)

    def commit(self, tell: str) -> None:
        """End the transaction, and run `tell` with it if it has changed something.

        Raises `psycopg.Error`; the outcome is unknown if the connection is lost then.
        """
        if not self._has_begun:
            self._send()
        self._send(*map(Statement, [tell, "COMMIT"] if self.touched else ["COMMIT"]))

    def send_waiting(self) -> None:
        """Send what waits, for statements that do not go through this object."""
        self._translated()

    def _execute(self, sql: str, arguments: Sequence[Value], table: str = "") -> list[Row]:
        if self.failure is not None:
            raise self.failure
        if self._has_begun and not is_lost(self._connection) and is_idle(self._connection):
            raise AssertionError("a statement outside of its transaction")
        statement = Statement(sql, arguments, table)
        if not table:
            return [*self._answer(statement)]
        # Forget the answers that this change could make wrong.
        written = _WRITTEN.match(sql)
        for asked in [*self._answers]:
            if written is None or written[1] in _words(asked[0]):
                del self._answers[asked]
        if _RETURNING in sql:
            return self._translated(statement)
        self._waiting.append(statement)
        texts = (each for each in arguments if isinstance(each, (str, bytes)))
        self._size += len(sql) + sum(map(len, texts))
        if self._size >= _MOST_WAITING:
            self._translated()
        return []

    def _answer(self, question: Statement) -> list[Row]:
        asked = question.sql, question.arguments
        found = self._answers.get(asked)
        if found is None:
            found = self._translated(question)
            if len(found) <= _MOST_KEPT:
                self._answers[asked] = found
        return found

    def _translated(self, *last: Statement) -> list[Row]:
        try:
            return self._send(*last)
        except psycopg.Error as refused:
            self.failure = translated(self._place, refused)
            raise self.failure from refused

    def _send(self, *last: Statement) -> list[Row]:
        """Run what waits and then these, in one round trip; the rows are those of the last one."""
        begin = [] if self._has_begun else [*map(Statement, self._begin)]
        statements = [*begin, *self._waiting, *last]
        self._has_begun = True
        self._waiting.clear()
        self._size = 0
        if not statements:
            return []
        cursor = self._run(statements)
        for number, each in enumerate(statements, 1):
            if each.table and cursor.rowcount:
                self.changed.add(each.table)
            if number == len(begin) and cursor.description is not None:
                self._check(cursor.fetchone())
            if number < len(statements):
                cursor.nextset()
        return cursor.fetchall() if cursor.description is not None else []

    def _run(self, statements: Sequence[Statement]) -> psycopg.Cursor[Row]:
        """Not by the pipeline of psycopg: behind it, the server forgets to end a frozen step."""
        if len(statements) == 1:
            [(sql, arguments, _)] = statements
            return self._connection.execute(in_dialect(sql), arguments)
        return self._connection.execute("; ".join(map(self._in_full, statements)), prepare=False)

    def _in_full(self, statement: Statement) -> str:
        """The statement with its values inside, for only such ones can go together."""
        first, *others = _parts(statement.sql)
        if any(each.count("'") % 2 for each in (first, *others)):
            raise AssertionError("an argument inside of a text")
        values = map(self._literal, statement.arguments)
        return first + "".join(value + part for value, part in zip(values, others, strict=True))

    def _literal(self, value: Value) -> str:
        return self._transformer.as_literal(value).decode()


# One row. `holder` is random for each start of a process, `machine` for each installation; `name`
# is what people call the machine.
# `step` is the id of the last step of this epoch, `schema` the number of the newest migration.
# `since`, `renewed` and `version` are for people; `wanted` is the epoch that is asked to let go.
# A database that is `closed` waits for the end of the move that bears this name, and none leads.
_LEASE = """
CREATE TABLE IF NOT EXISTS lease (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    holder TEXT NOT NULL,
    name TEXT NOT NULL,
    machine TEXT NOT NULL DEFAULT '',
    epoch BIGINT NOT NULL,
    until TIMESTAMPTZ NOT NULL,
    step TEXT NOT NULL,
    schema BIGINT NOT NULL,
    since TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    renewed TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    version TEXT NOT NULL DEFAULT '',
    wanted BIGINT NOT NULL DEFAULT 0,
    closed TEXT NOT NULL DEFAULT ''
);
INSERT INTO lease (id, holder, name, epoch, until, step, schema)
    VALUES (1, '', '', 0, '-infinity', '', 0) ON CONFLICT DO NOTHING
"""
# Ids and moments are compared as bytes, as SQLite does.
_TYPES = {"INTEGER": "BIGINT", "TEXT": 'TEXT COLLATE "C"', "BLOB": "BYTEA"}


def make_lease_row(connection: Connection, place: Path) -> None:
    """Make the lease that has no holder, unless there is one. Raises `StorageError`.

    Where there is one nothing is written, so that a database that takes no writes can be read.
    """
    for is_last in (False, True):
        try:
            if connection.execute("SELECT to_regclass('lease')").fetchone() == (None,):
                connection.execute(_LEASE)
        except psycopg.errors.UniqueViolation as refused:
            # Another machine has made the table in the same moment.
            if is_last:
                raise translated(place, refused) from refused
        except psycopg.Error as refused:
            raise translated(place, refused) from refused
        else:
            return


def schema_of(connection: Connection) -> int:
    """The number of the newest migration; 0 for a database without tables."""
    row = connection.execute("SELECT schema FROM lease").fetchone()
    return 0 if row is None else int(row[0])


def migrate(connection: Connection, place: Path) -> None:
    """Bring the tables up to date, within the open transaction."""
    found = schema_of(connection)
    if found > SCHEMA:
        raise OtherSchema(place, found, SCHEMA)
    for number in range(found, SCHEMA):
        for statement in filter(str.strip, MIGRATIONS[number].split(";\n")):
            connection.execute(definition_in_dialect(statement))
    connection.execute("UPDATE lease SET schema = $1", (SCHEMA,))


def definition_in_dialect(statement: str) -> str:
    """A statement of a migration in the words of PostgreSQL."""
    return re.sub(r"\b(INTEGER|TEXT|BLOB)\b", lambda found: _TYPES[found[1]], statement)
