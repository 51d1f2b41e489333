"""The tables of the database, as numbered migrations."""

from __future__ import annotations

import re
import sqlite3
from functools import cache
from typing import NamedTuple

_FIRST = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE records (name TEXT PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE mirrors (
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (name, hash)
);

CREATE TABLE session_history (seq INTEGER PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE occurrences (
    id TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    is_open INTEGER NOT NULL
);
CREATE INDEX occurrences_open ON occurrences (seq) WHERE is_open = 1;

CREATE TABLE ledger (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    occurrence TEXT,
    state TEXT NOT NULL,
    value TEXT NOT NULL
);
CREATE INDEX ledger_at ON ledger (at);
CREATE INDEX ledger_occurrence ON ledger (occurrence, seq) WHERE occurrence IS NOT NULL;
CREATE INDEX ledger_state ON ledger (state, seq) WHERE occurrence IS NULL;

CREATE TABLE inputs (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    value TEXT,
    ended TEXT,
    ended_at INTEGER
);
CREATE INDEX inputs_open ON inputs (seq) WHERE ended IS NULL;

CREATE TABLE inbox_turn (
    seq INTEGER PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE messages (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    change INTEGER NOT NULL UNIQUE,
    at INTEGER NOT NULL,
    turn TEXT,
    session TEXT,
    occurrence TEXT,
    charge TEXT NOT NULL,
    is_refunded INTEGER NOT NULL,
    fork TEXT,
    parent TEXT,
    value TEXT NOT NULL
);
CREATE INDEX messages_at ON messages (at);
CREATE INDEX messages_turn ON messages (turn, seq) WHERE turn IS NOT NULL;
CREATE INDEX messages_session ON messages (session, seq) WHERE session IS NOT NULL;
CREATE INDEX messages_occurrence ON messages (occurrence, seq) WHERE occurrence IS NOT NULL;

CREATE TABLE channels (
    name TEXT PRIMARY KEY,
    identity TEXT NOT NULL,
    from_seq INTEGER NOT NULL
);

CREATE TABLE deliveries (
    channel TEXT NOT NULL,
    message INTEGER NOT NULL,
    state TEXT NOT NULL,
    parts TEXT,
    tries INTEGER NOT NULL,
    tried_at TEXT,
    nonce TEXT NOT NULL,
    frozen_change INTEGER NOT NULL,
    shown_change INTEGER NOT NULL,
    is_behind INTEGER NOT NULL,
    reason TEXT NOT NULL,
    is_told INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (channel, message)
);
CREATE INDEX deliveries_untold ON deliveries (message)
    WHERE is_told = 0 AND state IN ('refused', 'unknown');
CREATE INDEX deliveries_open ON deliveries (channel, message) WHERE state = 'open';
CREATE INDEX deliveries_behind ON deliveries (channel, message)
    WHERE is_behind = 1 AND state = 'confirmed';
CREATE INDEX deliveries_message ON deliveries (message);

CREATE TABLE delivery_refs (
    channel TEXT NOT NULL,
    ref TEXT NOT NULL,
    message INTEGER NOT NULL,
    part INTEGER NOT NULL,
    PRIMARY KEY (channel, ref)
);
CREATE INDEX delivery_refs_message ON delivery_refs (message, channel, part);

CREATE TABLE job_ops (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    value TEXT NOT NULL,
    is_done INTEGER NOT NULL
);
CREATE INDEX job_ops_pending ON job_ops (seq) WHERE is_done = 0;
"""

_DUE_ITEMS = """
CREATE TABLE due_items (
    key TEXT PRIMARY KEY,
    due INTEGER NOT NULL,
    is_open INTEGER NOT NULL,
    answered_at INTEGER,
    again_at INTEGER,
    undo_until INTEGER,
    value TEXT NOT NULL
);
CREATE INDEX due_items_open ON due_items (due) WHERE is_open = 1;
CREATE INDEX due_items_answered ON due_items (answered_at) WHERE answered_at IS NOT NULL;
CREATE INDEX due_items_again ON due_items (again_at) WHERE again_at IS NOT NULL;
CREATE INDEX due_items_undo ON due_items (undo_until) WHERE undo_until IS NOT NULL;
"""

# The full-text table itself is made at a start, if SQLite can.
_SEARCH = """
CREATE TABLE search_state (version INTEGER NOT NULL);

CREATE INDEX messages_answers ON messages (seq, session)
    WHERE turn IS NOT NULL AND session IS NOT NULL;
"""

# `key` is by what the same request is known again; `fields` is the accepted data.
_WEBHOOKS = """
CREATE TABLE webhook_deliveries (
    occurrence TEXT PRIMARY KEY,
    hook TEXT NOT NULL,
    key TEXT NOT NULL,
    at INTEGER NOT NULL,
    fields TEXT NOT NULL
);
CREATE INDEX webhook_deliveries_key ON webhook_deliveries (hook, key, at);
CREATE INDEX webhook_deliveries_at ON webhook_deliveries (at);
"""

# `undoes` is the key of another change; `text` is what the file held last, NULL for no file.
_CHANGES = """
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    at INTEGER NOT NULL,
    place TEXT NOT NULL,
    undoes TEXT NOT NULL,
    is_unseen INTEGER NOT NULL,
    value TEXT NOT NULL
);
CREATE INDEX changes_at ON changes (at);
CREATE INDEX changes_place ON changes (place, seq);
CREATE INDEX changes_undoes ON changes (undoes) WHERE undoes != '';
CREATE INDEX changes_unseen ON changes (seq) WHERE is_unseen = 1;

CREATE TABLE known_files (path TEXT PRIMARY KEY, stamp TEXT NOT NULL, text TEXT);
"""

# `micros` are millionths of a dollar.
_USAGE = """
CREATE TABLE usage (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    turn TEXT,
    occurrence TEXT,
    model TEXT NOT NULL,
    price TEXT NOT NULL,
    micros INTEGER NOT NULL,
    tokens INTEGER NOT NULL
);
CREATE INDEX usage_at ON usage (at, price, micros);
CREATE INDEX usage_occurrence ON usage (occurrence) WHERE occurrence IS NOT NULL;
"""

# The newest runs are read without all others.
_NEWEST_RUNS = """
CREATE INDEX IF NOT EXISTS occurrences_seq ON occurrences (seq);
"""

# What a button on the phone posts; `at` is when it was made.
_PUSH_BUTTONS = """
CREATE TABLE push_buttons (
    nonce TEXT PRIMARY KEY,
    message TEXT NOT NULL,
    custom_id TEXT NOT NULL,
    is_used INTEGER NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX push_buttons_message ON push_buttons (message);
CREATE INDEX push_buttons_at ON push_buttons (at);
"""

# The files of machines that share a database. `hash` is of the content; it is empty for a file that
# was removed. The current version of a path has its content in `file_parts`, older ones have none.
_FILES = """
CREATE TABLE files (
    path TEXT NOT NULL,
    hash TEXT NOT NULL,
    change INTEGER NOT NULL,
    is_current INTEGER NOT NULL,
    size INTEGER NOT NULL,
    is_executable INTEGER NOT NULL,
    PRIMARY KEY (path, hash)
);
CREATE INDEX files_change ON files (change);
CREATE INDEX files_hash ON files (hash) WHERE is_current = 1;

CREATE TABLE file_parts (
    hash TEXT NOT NULL,
    number INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (hash, number)
);
"""

# What the engine has recorded of its sessions, for the other machines that share the database.
# `position` is where the piece begins in the file, `at` is when the file was changed last.
_TRANSCRIPTS = """
CREATE TABLE transcripts (
    file TEXT NOT NULL,
    position INTEGER NOT NULL,
    change INTEGER NOT NULL,
    at INTEGER NOT NULL,
    hash TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (file, position)
);
CREATE INDEX transcripts_change ON transcripts (change);
"""

# `key` says the place. A note has a path, a task a title; `untold` is the id of a task that the
# owner was not shown, `session` that which made the note, `hash` of what the agent wrote there.
_MARKS = """
CREATE TABLE marks (
    key TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    at INTEGER NOT NULL,
    path TEXT NOT NULL,
    title TEXT NOT NULL,
    untold TEXT NOT NULL,
    session TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE INDEX marks_untold ON marks (at) WHERE untold != '';
"""

MIGRATIONS: tuple[str, ...] = (
    _FIRST,
    _DUE_ITEMS,
    _SEARCH,
    _WEBHOOKS,
    _USAGE,
    _CHANGES,
    _NEWEST_RUNS,
    _PUSH_BUTTONS,
    _FILES,
    _TRANSCRIPTS,
    _MARKS,
)
SCHEMA = len(MIGRATIONS)


class Table(NamedTuple):
    """A table of the present schema; `texts` are its columns of text, `key` names its rows."""

    name: str
    columns: tuple[str, ...]
    texts: frozenset[str]
    key: tuple[str, ...]


FILE_TABLES = frozenset(("files", "file_parts"))
# Copies of files, which machines with one database have for each other; elsewhere they are empty.
COPIES = FILE_TABLES | {"transcripts"}
# The names of the search index and of what SQLite keeps for it begin with this.
SEARCH_TABLES = "search"

_TABLE = r"(?s)CREATE TABLE (\w+) \((.*?)\);"
_COLUMN = r"(?:^|[\s,])([a-z_]+) ([A-Z]+)( PRIMARY KEY)?"
_KEY = r"PRIMARY KEY \(([^)]*)\)"


@cache
def tables() -> tuple[Table, ...]:
    """The tables with the rows of an installation, as the migrations make them.

    The search index and the copies of files are none of them.
    """
    return tuple(
        _table(name, body)
        for name, body in re.findall(_TABLE, "\n".join(MIGRATIONS))
        if not (name.startswith(SEARCH_TABLES) or name in COPIES)
    )


def _table(name: str, body: str) -> Table:
    columns = re.findall(_COLUMN, body)
    several = re.search(_KEY, body)
    key = several[1].split(", ") if several else [each for each, _, is_key in columns if is_key]
    return Table(
        name,
        tuple(each for each, _, _ in columns),
        frozenset(each for each, kind, _ in columns if kind == "TEXT"),
        tuple(key),
    )


def schema_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the tables up to date, within the open transaction."""
    for number in range(schema_of(connection), SCHEMA):
        for statement in filter(str.strip, MIGRATIONS[number].split(";\n")):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version={SCHEMA}")
