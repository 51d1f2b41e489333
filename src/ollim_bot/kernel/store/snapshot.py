"""What a backup takes: the database of one moment, its mirrors, and files by their kinds."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import Path, PurePosixPath

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.base.settings import CHANNELS
from ollim_bot.kernel.store.backend import ServerRows
from ollim_bot.kernel.store.connection import (
    SqliteStatements,
    Statements,
    connect_for_reading,
    connect_in_memory,
)
from ollim_bot.kernel.store.copies import back_up, damage_of, mark_copy
from ollim_bot.kernel.store.database_errors import Busy, Damaged, translated
from ollim_bot.kernel.store.files import PRIVATE, OsDisk, remove_durably, write_atomically
from ollim_bot.kernel.store.mirrors import MirrorAge, mirror_age
from ollim_bot.kernel.store.questions import DATABASE, ask_rows
from ollim_bot.kernel.store.records import MIRRORED, stored_record
from ollim_bot.kernel.store.schema import SEARCH_TABLES, migrate, schema_of
from ollim_bot.kernel.store.session_history import HISTORY_FILE

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
        for name in MIRROR_FILES:
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
        for name in (DATABASE, *MIRROR_FILES):
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


# Of no use in another directory, or made anew by each start.
_REMADE = frozenset(
    (
        *("bot.pid", "commands.sock", ".locks", "copies", "ballast", "engine", "uploads"),
        *("run_requests", "known_schedule.db", "standing_by", "machine_id", "led"),
        *CHANNELS,
        *("maintenance.json", "restored_transcripts", "left-off", "files-current"),
        *("waiting-files.json", "update.json", "before-update", ".before-update.tmp"),
        *DATABASE_FILES,
        *MIRROR_FILES,
    )
)
_OWN_LINKS = (".claude/skills", "routine-reminder-spec.md", "webhook-spec.md")
_KEYS_IN_STATE = (
    "credentials.json",
    "token.json",
    "web_token",
    "web_browsers.json",
    "servers",
    "push.json",
)
_ADDRESS = ".source.json"


class Kind(Enum):
    """What a backup does with a file of the data directory."""

    TAKEN = "taken"
    KEY = "key"
    REMADE = "remade"


def kind_of(relative: PurePosixPath) -> Kind:
    """The kind of a file by its path below the data directory.

    A name that begins with that of a key, such as `.env.old` or `token.json.corrupt-…`, is one too.
    """
    relative = folded(relative)
    parts = relative.parts
    if ".git" in parts or (relative.name.startswith(".") and relative.suffix == ".tmp"):
        return Kind.REMADE
    if any(part.startswith(".env") for part in parts):
        return Kind.KEY
    if len(parts) == 1 and relative.name.lstrip(".").startswith("mcp.json"):
        return Kind.KEY
    if parts[0] == ".claude" and len(parts) == 2 and relative.name.startswith("settings"):
        return Kind.KEY
    if parts[0] == "state" and len(parts) > 1:
        first = parts[1]
        if first in _REMADE:
            return Kind.REMADE
        if first.startswith(_KEYS_IN_STATE) or (first == "calendars" and _ADDRESS in relative.name):
            return Kind.KEY
        return Kind.TAKEN
    return Kind.REMADE if str(relative) in _OWN_LINKS else Kind.TAKEN


def folded(relative: PurePosixPath) -> PurePosixPath:
    """The path as a file system finds it that knows neither case nor invisible characters."""
    signs = unicodedata.normalize("NFC", str(relative)).casefold()
    found = PurePosixPath("".join(each for each in signs if unicodedata.category(each) != "Cf"))
    return found if found.parts else relative
