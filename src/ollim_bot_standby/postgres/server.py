"""A database on a PostgreSQL server as it is found: whose it is, who leads, whether it is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import psycopg

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.store.schema import COPIES, SEARCH_TABLES, tables
from ollim_bot_standby.machines import FoundServer
from ollim_bot_standby.postgres.connection import (
    Address,
    Connection,
    connect_to,
    make_lease_row,
    schema_of,
    translated,
)
from ollim_bot_standby.postgres.lease import read_leader

R = TypeVar("R")

# What `init` notes on the server: the move that brought the rows, and the names of the keys there.
MOVE, KEY_NAMES = "standby_move", "standby_keys"

# In seconds: after so long without it, what another connection tells is not heard.
_HEARD, _LONGEST = "ollim_heard", 3.0

_FACTS = """SELECT current_setting('server_version_num')::int, current_setting('server_version'),
    current_setting('server_encoding'), pg_is_in_recovery(), current_user,
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)"""
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"


def look_at(address: Address) -> FoundServer:
    """Look at the database without changing it. Raises `StorageError`."""
    return on_server(address, _found)


def _found(connection: Connection) -> FoundServer:
    row = connection.execute(_FACTS).fetchone()
    assert row is not None
    number, version, encoding, is_replica, user, can_create = row
    tables = frozenset(str(name) for (name,) in connection.execute(_TABLES).fetchall())
    found = FoundServer(number, version, encoding, is_replica, user, can_create, tables)
    if "lease" not in tables or not _has_own_lease(connection):
        return found
    closed = connection.execute("SELECT closed FROM lease").fetchone()
    notes: dict[str, str] = {}
    if found.has_tables:
        notes.update(connection.execute("SELECT name, value FROM meta").fetchall())
    return replace(
        found,
        leader=read_leader(connection),
        schema=schema_of(connection) if found.has_tables else 0,
        closed="" if closed is None else str(closed[0]),
        move=notes.get(MOVE, ""),
        key_names=tuple(notes.get(KEY_NAMES, "").split()),
    )


def _has_own_lease(connection: Connection) -> bool:
    row = connection.execute(
        "SELECT count(*) FROM information_schema.columns WHERE table_schema = current_schema()"
        " AND table_name = 'lease' AND column_name IN ('epoch', 'closed')"
    ).fetchone()
    return row is not None and row[0] == 2


def close_for(address: Address, move: str, epoch: int) -> None:
    """Let no process lead but that of this move, until the database is opened again.

    Raises `WriteFailed` if another process has led since this epoch, and other `StorageError`s.
    """

    def close(connection: Connection) -> None:
        make_lease_row(connection, address.place)
        closing = "UPDATE lease SET closed = $1 WHERE epoch = $2 RETURNING epoch"
        if connection.execute(closing, (move, epoch)).fetchone() is None:
            raise WriteFailed(address.place, "was taken over meanwhile. Nothing was changed.")

    on_server(address, close)


def open_again(address: Address) -> None:
    """Let processes lead. Raises `StorageError`."""
    on_server(address, lambda connection: connection.execute("UPDATE lease SET closed = ''"))


def compact(address: Address) -> None:
    """Have the server keep nothing of rows that were replaced. Raises `StorageError`."""

    def vacuum(connection: Connection) -> None:
        connection.execute("SET statement_timeout = 0")
        for name in (*(each.name for each in tables()), *sorted(COPIES), SEARCH_TABLES):
            connection.execute(f"VACUUM FULL {name}")

    on_server(address, vacuum)


def keeps_sessions(address: Address) -> bool:
    """Whether a connection stays the same session: a pooler may give each step another one.

    Raises `StorageError`.
    """
    with _connected(address) as hears, _connected(address) as tells:
        hears.execute(f"LISTEN {_HEARD}")
        tells.execute(f"NOTIFY {_HEARD}")
        return any(hears.notifies(timeout=_LONGEST, stop_after=1))


def on_server(address: Address, question: Callable[[Connection], R]) -> R:
    """The answer on a connection of its own. Raises `StorageError`."""
    with _connected(address) as connection:
        return question(connection)


@contextmanager
def _connected(address: Address) -> Iterator[Connection]:
    connection = connect_to(address)
    try:
        yield connection
    except psycopg.Error as refused:
        raise translated(address.place, refused) from refused
    finally:
        connection.close()
