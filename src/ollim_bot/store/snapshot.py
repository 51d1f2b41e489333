"""What a backup takes of the database: a copy of one moment, with the mirrors that belong to it."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from ollim_bot.errors import WriteFailed
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit, read_file
from ollim_bot.store.backend import ServerRows
from ollim_bot.store.connection import (
    SqliteStatements,
    Statements,
    connect_for_reading,
    connect_in_memory,
)
from ollim_bot.store.copies import back_up, damage_of, mark_copy
from ollim_bot.store.errors import Busy, Damaged, translated
from ollim_bot.store.files import PRIVATE, OsDisk, remove_durably, write_atomically
from ollim_bot.store.mirrors import MirrorAge, mirror_age
from ollim_bot.store.questions import DATABASE, ask_rows
from ollim_bot.store.records import MIRRORED, stored_record
from ollim_bot.store.schema import SEARCH_TABLES, migrate, schema_of
from ollim_bot.store.session_history import HISTORY_FILE

MIRROR_FILES = frozenset((HISTORY_FILE, *(spec.file for spec in MIRRORED)))
# The database itself, and the files that only SQLite and a start may open.
DATABASE_FILES = frozenset(
    (DATABASE, *(f"{DATABASE}{ending}" for ending in ("-wal", "-shm", "-journal", ".suspect")))
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`mirrors` are the files of `state/` that belong to this state of the database.

    `sessions` are the ids of all sessions that it names, and perhaps of other things.
    """

    at: datetime
    schema: int
    mirrors: Mapping[str, bytes] = field(default_factory=dict)
    sessions: frozenset[str] = frozenset()


def take_snapshot(
    paths: DataPaths,
    target: Path,
    now: Callable[[], datetime],
    *,
    is_running: bool,
    server: ServerRows | None = None,
) -> Snapshot | None:
    """Copy the database to `target`, also while it is written; None if there is none yet.

    What a person wrote into a mirror while no bot runs stays; a running bot ignores it, so there
    the database counts, and so does that on a `server`. Raises `StorageError`; a damaged database
    raises `Damaged`.
    """
    source = paths.state / DATABASE
    if server is None and not source.exists():
        return None
    # The mirrors first: one that is older than the database is recognised, a newer one is not.
    by_hand = {} if is_running or server is not None else _mirror_contents(paths)
    at = now()
    try:
        if server is None:
            back_up(source, target)
        else:
            server.copy_to(target, at)
        if damage := damage_of(target):
            raise Damaged(source, damage)
        with closing(connect_for_reading(target)) as connection:
            schema = schema_of(connection)
        if not schema:
            return None
        mark_copy(target, at, at)
        with closing(connect_for_reading(target)) as connection:
            connection.execute("BEGIN")
            statements = SqliteStatements(connection, target)
            mirrors = _mirrors(statements, by_hand)
            return Snapshot(at, schema, mirrors, _sessions(statements))
    except sqlite3.Error as refused:
        # Only the copy is written.
        error = translated(source, refused)
        is_of_copy = isinstance(error, WriteFailed) and not isinstance(error, Busy)
        raise translated(target if is_of_copy else source, refused) from refused


def check_database(path: Path, schema: int) -> None:
    """Look through the whole database. Raises `Damaged`, or another `StorageError`."""
    try:
        with closing(connect_for_reading(path)) as connection:
            found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if not schema or schema_of(connection) != schema or _has_other_objects(connection):
                found = "it has not the tables that it should have"
    except sqlite3.Error as refused:
        raise translated(path, refused) from refused
    if found != "ok":
        raise Damaged(path, str(found))


def _has_other_objects(connection: sqlite3.Connection) -> bool:
    """Whether there are other tables than ours, or views and triggers, which change what is read.

    The tables of the search index are left out.
    """
    with closing(connect_in_memory()) as ours:
        migrate(ours)
        known = {row[0] for row in ours.execute("SELECT name FROM sqlite_master")}
    rows = connection.execute("SELECT type, name FROM sqlite_master").fetchall()
    return any(
        kind not in ("table", "index")
        or not (name in known or name.startswith((SEARCH_TABLES, "sqlite_")))
        for kind, name in rows
    )


def _mirror_contents(paths: DataPaths) -> dict[str, bytes | None]:
    """The mirrors by name, None for one that a person removed; without those of no use."""
    found: dict[str, bytes | None] = {}
    for name in MIRROR_FILES:
        try:
            found[name] = read_file(paths.state / name, SizeLimit.STATE)
        except FileNotFoundError:
            found[name] = None
        except OSError:
            continue
    return found


def write_mirrors(paths: DataPaths) -> None:
    """Write all mirrors as the database has them, over what is there. Raises `StorageError`.

    The files may be of a time when another machine led, and are no edits of a person then.
    """
    found = ask_rows(paths, lambda statements: _mirrors(statements, {}))
    for name in MIRROR_FILES:
        if name in found:
            write_atomically(OsDisk(), paths.state / name, found[name], PRIVATE)
        else:
            remove_durably(OsDisk(), paths.state / name)


def _mirrors(statements: Statements, by_hand: Mapping[str, bytes | None]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for spec in MIRRORED:
        content = stored_record(statements, spec.name)
        if spec.file in by_hand:
            written = by_hand[spec.file]
            if mirror_age(statements, spec.name, written) is MirrorAge.BY_HAND:
                content = written
        if content is not None:
            found[spec.file] = content
    rows = statements.rows("SELECT value FROM session_history ORDER BY seq")
    lines = b"".join(str(row[0]).encode() + b"\n" for row in rows)
    if history := by_hand.get(HISTORY_FILE) or lines:
        found[HISTORY_FILE] = history
    return found


def known_sessions(paths: DataPaths) -> frozenset[str]:
    """The ids of all sessions that the database names; none if there is no database."""
    if not (paths.state / DATABASE).exists():
        return frozenset()
    return ask_rows(paths, _sessions)


def _sessions(statements: Statements) -> frozenset[str]:
    places = (
        "SELECT value FROM session_history",
        "SELECT value FROM records",
        "SELECT DISTINCT session FROM messages WHERE session IS NOT NULL",
    )
    rows = (row for place in places for row in statements.rows(place))
    return frozenset(found for row in rows for found in _UUID.findall(str(row[0])))


_MIRRORS = (HISTORY_FILE, *(spec.file for spec in MIRRORED))


def keep_state(paths: DataPaths) -> None:
    """Copy the database and its mirrors, whole and synced. No bot may run.

    Raises `StorageError`; nothing is kept then.
    """
    folder, database = paths.before_update, paths.state / DATABASE
    temporary = folder.with_name(f".{folder.name}.tmp")
    try:
        for left in (folder, temporary):
            shutil.rmtree(left, ignore_errors=True)
        temporary.mkdir(mode=0o700)
        if database.exists():
            back_up(database, temporary / DATABASE)
        for name in _MIRRORS:
            with suppress(FileNotFoundError):
                _copy(paths.state / name, temporary / name)
        OsDisk().sync_folder(temporary)
        os.replace(temporary, folder)
        OsDisk().sync_folder(paths.state)
    except sqlite3.Error as refused:
        raise translated(database, refused) from refused
    except OSError as refused:
        raise WriteFailed(folder, f"could not be written: {refused.strerror}.") from refused
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def keep_deliveries(paths: DataPaths) -> None:
    """Keep with the state what the sentinel has delivered since, which a start takes in."""
    with suppress(OSError):
        _copy(paths.sentinel, paths.before_update / paths.sentinel.name)


def put_state_back(paths: DataPaths) -> None:
    """Put the kept state back, if there is one. Repeatable; the holder of the instance lock calls.

    Raises `StorageError`; what is kept stays kept then.
    """
    folder, database = paths.before_update, paths.state / DATABASE
    if not folder.is_dir():
        return
    try:
        for suffix in ("-wal", "-shm"):
            Path(f"{database}{suffix}").unlink(missing_ok=True)
        for name in (DATABASE, *_MIRRORS):
            _put_back(folder / name, paths.state / name)
        if not paths.sentinel.exists():
            _put_back(folder / paths.sentinel.name, paths.sentinel)
        OsDisk().sync_folder(paths.state)
    except OSError as refused:
        reason = f"cannot be put back from {folder}: {refused.strerror}."
        raise WriteFailed(database, reason) from refused
    drop_kept_state(paths)


def drop_kept_state(paths: DataPaths) -> None:
    shutil.rmtree(paths.before_update, ignore_errors=True)


def is_written(paths: DataPaths) -> bool:
    """Whether a process changes the database in a transaction now, as a migration does."""
    address = f"{(paths.state / DATABASE).as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(address, timeout=0, uri=True)) as connection:
            connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as refused:
        return refused.sqlite_errorcode == sqlite3.SQLITE_BUSY
    return False


def _copy(source: Path, target: Path) -> None:
    shutil.copy2(source, target)
    OsDisk().sync(target)


def _put_back(kept: Path, present: Path) -> None:
    if not kept.exists():
        present.unlink(missing_ok=True)
        return
    temporary = present.with_name(f".{present.name}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        os.link(kept, temporary)  # takes no room, which a full disk does not have
    except OSError:
        _copy(kept, temporary)
    os.replace(temporary, present)
