"""Moves all rows between a file of SQLite and PostgreSQL, or copies those that are armed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol, TypeVar

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.store.connection import (
    Row,
    SqliteStatements,
    Statements,
    connect,
    connect_for_reading,
    microseconds,
)
from ollim_bot.kernel.store.database_errors import Damaged, translated
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.questions import check_schema
from ollim_bot.kernel.store.schema import Table, migrate, schema_of, tables
from ollim_bot.kernel.store.search_index import can_index
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot_standby.postgres.database import PostgresDatabase
from ollim_bot_standby.postgres.search import TsvectorIndex

R = TypeVar("R")

_PAGE = 500

# How many rows each table has.
Counts = Mapping[str, int]


class ReadRows(Protocol):
    """Rows on a server, as a question of one state sees them."""

    def query_rows(self, question: Callable[[Statements], R]) -> R:
        """Raises `StorageError`."""


def move_to_server(
    source: Path,
    database: PostgresDatabase,
    now: datetime,
    *,
    replace: bool = False,
    mark: Step[None] = lambda _: None,
) -> Counts:
    """Copy all rows of the file, and `mark` them, in one step of the server.

    The file stays as it is.

    No bot may use the file meanwhile. With `replace`, rows that are on the server are dropped;
    without, they are a `WriteFailed`. Raises `StorageError`; the server is unchanged then.
    """

    def fill(rows: Statements, target: Statements) -> Counts:
        if not replace and any(_counts(target).values()):
            raise WriteFailed(database.path, "has the rows of a bot already. Nothing was changed.")
        for table in tables():
            target.write(table.name, f"DELETE FROM {table.name}")
        target.write("messages", "DELETE FROM search_state")
        counts = _copy_rows(rows, target, database.path)
        arrived = Transaction(target, now, TsvectorIndex)
        arrived.messages.prepare_search(is_supported=True)
        mark(arrived)
        return counts

    try:
        with closing(connect_for_reading(source)) as connection:
            check_schema(source, schema_of(connection))
            connection.execute("BEGIN")
            rows = SqliteStatements(connection, source)
            return database.run_rows(lambda target: fill(rows, target))[0]
    except sqlite3.Error as refused:
        raise translated(source, refused) from refused


def move_to_file(database: ReadRows, target: Path, now: datetime) -> Counts:
    """Write one state of the server into a new file, whole and synced; the server is unchanged.

    Raises `StorageError`; there is no file then.
    """
    if target.exists() or target.with_name(f"{target.name}-wal").exists():
        raise WriteFailed(target, "is there already. Nothing was changed.")
    with _new_file(target, "journal_mode=DELETE") as new:
        counts = database.query_rows(lambda rows: _copy_rows(rows, new, target))
        Transaction(new, now).messages.prepare_search(is_supported=can_index())
    return counts


@contextmanager
def _new_file(target: Path, *pragmas: str) -> Iterator[SqliteStatements]:
    """A file with our tables, which takes the place of `target` once it is filled and synced."""
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        with closing(connect(temporary)) as connection:
            for pragma in pragmas:
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("BEGIN")
            migrate(connection)
            yield SqliteStatements(connection, temporary)
            connection.execute("COMMIT")
        OsDisk().sync(temporary)
        os.replace(temporary, target)
        OsDisk().sync_folder(target.parent)
    except sqlite3.Error as refused:
        raise translated(target, refused) from refused
    except OSError as refused:
        raise WriteFailed(target, f"could not be written: {refused.strerror}.") from refused
    finally:
        temporary.unlink(missing_ok=True)


def _copy_rows(source: Statements, target: Statements, place: Path) -> Counts:
    for table in tables():
        for page in _pages(source, table):
            insert_rows(target, table, page)
    expected, found = _counts(source), _counts(target)
    for name, count in expected.items():
        if found[name] != count:
            raise Damaged(place, f"{found[name]} of {count} rows of {name} have arrived")
    return found


def insert_rows(target: Statements, table: Table, rows: Sequence[Row]) -> None:
    """Add whole rows to a table."""
    one = f"({', '.join('?' for _ in table.columns)})"
    for start in range(0, len(rows), _PAGE):
        page = rows[start : start + _PAGE]
        target.write(
            table.name,
            f"INSERT INTO {table.name} ({', '.join(table.columns)})"
            f" VALUES {', '.join(one for _ in page)}",
            *(value for row in page for value in row),
        )


def _pages(source: Statements, table: Table) -> Iterator[list[Row]]:
    columns, key = ", ".join(table.columns), ", ".join(table.key)
    after = f"WHERE ({key}) > ({', '.join('?' for _ in table.key)})"
    places = [table.columns.index(each) for each in table.key]
    rest = f"ORDER BY {key} LIMIT {_PAGE}"
    page = source.rows(f"SELECT {columns} FROM {table.name} {rest}")
    while page:
        yield page
        last = [page[-1][place] for place in places]
        page = source.rows(f"SELECT {columns} FROM {table.name} {after} {rest}", *last)


def _counts(rows: Statements) -> dict[str, int]:
    return {table.name: rows.number(f"SELECT count(*) FROM {table.name}") for table in tables()}


# What is older has ended, but for what is open.
_KEPT = timedelta(days=2)
# By the ids of so many messages, others are told apart from the one that is looked for.
_REFS = 500

_SHOWN = (
    "SELECT seq FROM messages WHERE occurrence IS NOT NULL AND at >="
    " (SELECT coalesce(min(due), {since}) FROM due_items WHERE is_open = 1 AND due < {since})"
)
_NEWEST = f"(SELECT max(seq) FROM messages) - {_REFS}"
_OPEN_ROWS = (
    "SELECT ledger.seq FROM occurrences JOIN ledger ON ledger.occurrence = occurrences.id"
    " WHERE occurrences.is_open = 1"
)
_ROSTER = "SELECT coalesce(max(seq), 0) FROM ledger WHERE occurrence IS NULL AND state = 'roster'"
_WANTED = {
    "meta": "TRUE",
    "records": "TRUE",
    "channels": "TRUE",
    "due_items": "is_open = 1",
    "occurrences": "is_open = 1 OR id IN (SELECT occurrence FROM ledger WHERE at >= {since})",
    "ledger": (
        f"seq IN (SELECT seq FROM ledger WHERE at >= {{since}} UNION {_OPEN_ROWS} UNION"
        f" SELECT seq FROM ledger WHERE occurrence IS NULL AND seq >= ({_ROSTER}))"
    ),
    "messages": (
        f"seq IN ({_SHOWN} UNION SELECT message FROM delivery_refs WHERE message > {_NEWEST})"
    ),
    "deliveries": f"message IN ({_SHOWN})",
    "delivery_refs": f"message > {_NEWEST} OR message IN ({_SHOWN})",
}


def keep_schedule(database: ReadRows, target: Path, now: datetime) -> None:
    """Replace the file by what is armed, open and new now, which the sentinel of the leader needs
    while no server answers. Raises `StorageError`.
    """

    def copy(source: Statements) -> None:
        for table in tables():
            if (wanted := _WANTED.get(table.name)) is not None:
                columns, where = ", ".join(table.columns), wanted.format(since=since)
                found = source.rows(f"SELECT {columns} FROM {table.name} WHERE {where}")
                insert_rows(new, table, found)

    since = microseconds(now - _KEPT)
    with _new_file(target, "journal_mode=MEMORY", "synchronous=OFF") as new:
        database.query_rows(copy)
