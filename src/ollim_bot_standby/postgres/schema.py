"""The tables in PostgreSQL, from the same migrations, and the row that says who leads."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg

from ollim_bot.store.errors import OtherSchema
from ollim_bot.store.schema import MIGRATIONS, SCHEMA
from ollim_bot_standby.postgres.connection import Connection, translated

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
