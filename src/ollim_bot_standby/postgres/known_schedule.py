"""Copies from a server what the sentinel of the leader needs while no server answers."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

from ollim_bot.errors import WriteFailed
from ollim_bot.store.connection import SqliteStatements, Statements, connect, microseconds
from ollim_bot.store.errors import translated
from ollim_bot.store.files import OsDisk
from ollim_bot.store.schema import migrate, tables
from ollim_bot_standby.postgres.transfer import ReadRows, insert_rows

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
    """Replace the file by what is armed, open and new now. Raises `StorageError`."""
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        with closing(connect(temporary)) as connection:
            connection.execute("PRAGMA journal_mode=MEMORY")
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("BEGIN")
            migrate(connection)
            new = SqliteStatements(connection, temporary)
            database.query_rows(lambda rows: _copy(rows, new, microseconds(now - _KEPT)))
            connection.execute("COMMIT")
        OsDisk().sync(temporary)
        os.replace(temporary, target)
    except sqlite3.Error as refused:
        raise translated(target, refused) from refused
    except OSError as refused:
        raise WriteFailed(target, f"could not be written: {refused.strerror}.") from refused
    finally:
        temporary.unlink(missing_ok=True)


def _copy(source: Statements, target: Statements, since: int) -> None:
    for table in tables():
        if (wanted := _WANTED.get(table.name)) is not None:
            columns = ", ".join(table.columns)
            where = wanted.format(since=since)
            found = source.rows(f"SELECT {columns} FROM {table.name} WHERE {where}")
            insert_rows(target, table, found)
