"""The state of the program as it was before a new version tried it, to put it back unchanged."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from ollim_bot.errors import WriteFailed
from ollim_bot.paths import DataPaths
from ollim_bot.store.copies import back_up
from ollim_bot.store.errors import translated
from ollim_bot.store.files import OsDisk
from ollim_bot.store.questions import DATABASE
from ollim_bot.store.records import MIRRORED
from ollim_bot.store.session_history import HISTORY_FILE

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
