"""Earlier texts of changed files, kept for Undo."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from ollim_bot.domain.shared_files import (
    FileChange,
    JobFile,
    JobFolder,
    ProfileFile,
    SharedFile,
    UndoOutcome,
)
from ollim_bot.errors import StorageError, WriteFailed
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit
from ollim_bot.ports import Disk, Journal
from ollim_bot.store.files import (
    PRIVATE,
    SHARED,
    FileLock,
    OsDisk,
    remove_durably,
    write_atomically,
)
from ollim_bot.store.job_checker import text_at

_VERSION = 1
_KEPT_FOR = timedelta(days=30)
_KEY = re.compile(r"[0-9a-f]{8}")


class _UndoEntry(NamedTuple):
    """`after` is a digest of the text that replaced `before`."""

    file: SharedFile
    before: str | None
    after: str


class UndoStore:
    """One file in `state/undo/` for each change, until it is undone or 30 days old.

    An undo holds the lock of the file's folder, so that it happens once.

    Changes by the agent's commands wait in `state/unseen_changes/` until they are shown.
    """

    def __init__(self, paths: DataPaths, journal: Journal, disk: Disk | None = None) -> None:
        self._paths = paths
        self._journal = journal
        self._disk = disk or OsDisk()
        self._folder = paths.state / "undo"
        self._unseen = paths.state / "unseen_changes"

    def keep(self, change: FileChange) -> None:
        _make(self._folder)
        self._prune(change.at)
        row = {**_row(change), "after": _digest(change.after)}
        write_atomically(self._disk, self._place(change.key), json.dumps(row).encode(), PRIVATE)

    def text(self, file: SharedFile) -> str | None:
        """The current text of the file; None if there is no file. Raises `Unreadable`."""
        return text_at(self._disk, self._paths.root / str(file))

    def leave(self, change: FileChange) -> None:
        """Record what a command is about to do, to be shown to the owner once it is done.

        The caller holds the lock of the file's folder until the change is made, so that no change
        goes unrecorded. Raises `WriteFailed`.
        """
        _make(self._unseen)
        row = {**_row(change), "after": change.after, "by": change.by, "at": change.at.isoformat()}
        # The real clock under the lock keeps the records in the order of the changes.
        place = self._unseen / f"{time.time_ns():020d}-{change.key}.json"
        write_atomically(self._disk, place, json.dumps(row).encode(), PRIVATE)

    def unseen(self) -> Sequence[FileChange]:
        """The changes by commands that the owner was not shown, oldest first.

        Changes that were recorded but never made, because the command was killed, are forgotten.
        """
        waiting = self._waiting()
        locks = dict.fromkeys(self._lock_of(each.file) for each in waiting)
        for lock in locks:
            with FileLock(lock).held():
                # A command makes its change before it releases the lock, so recorded changes are
                # now final.
                noted = [each for each in self._waiting() if self._lock_of(each.file) == lock]
                self._forget_undone(noted)
        return self._waiting() if locks else ()

    def forget(self, key: str) -> None:
        """Forget a change that was shown or will never be made."""
        if _KEY.fullmatch(key):
            for place in self._places():
                if place.stem.endswith(f"-{key}"):
                    remove_durably(self._disk, place)

    def undo(self, key: str) -> tuple[UndoOutcome, SharedFile | None]:
        former = self._former(key)
        if former is None:
            return UndoOutcome.GONE, None
        with FileLock(self._lock_of(former.file)).held():
            # A second click may have been faster.
            end = UndoOutcome.GONE if self._former(key) is None else self._undone(key, former)
            return end, former.file

    def _undone(self, key: str, former: _UndoEntry) -> UndoOutcome:
        path, before = self._paths.root / str(former.file), former.before
        now = text_at(self._disk, path)
        if now != before:
            if _digest(now) != former.after:
                return UndoOutcome.CHANGED_SINCE
            self._put_back(path, before)
            self._journal.note(path, f"undo: {former.file}")
        remove_durably(self._disk, self._place(key))
        return UndoOutcome.REMOVED if before is None else UndoOutcome.RESTORED

    def _put_back(self, path: Path, before: str | None) -> None:
        if before is None:
            remove_durably(self._disk, path)
        else:
            # Keep a link and change its target.
            write_atomically(self._disk, path.resolve(), _bytes(before), SHARED)

    def _former(self, key: str) -> _UndoEntry | None:
        """The entry; None if it is gone, or was not written by this program."""
        try:
            row = json.loads(self._disk.read(self._place(key), SizeLimit.FORMER_JOB))
            file = _file(row)
            before, after = row["before"], row["after"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        is_known = row.get("version") == _VERSION and isinstance(before, str | None)
        return _UndoEntry(file, before, str(after)) if is_known else None

    def _waiting(self) -> list[FileChange]:
        return [each for place in self._places() if (each := self._noted(place)) is not None]

    def _places(self) -> list[Path]:
        try:
            names = os.listdir(self._unseen)
        except OSError:
            return []
        return [self._unseen / name for name in sorted(names) if name.endswith(".json")]

    def _noted(self, place: Path) -> FileChange | None:
        """The change; None for a foreign file, or one that was shown since it was listed."""
        key = place.stem.rpartition("-")[2]
        with suppress(OSError, ValueError, KeyError, TypeError):
            row = json.loads(self._disk.read(place, SizeLimit.FORMER_JOB))
            file, before, after = _file(row), row["before"], row["after"]
            at = datetime.fromisoformat(row["at"])
            is_right = isinstance(before, str | None) and isinstance(after, str | None)
            if is_right and row["version"] == _VERSION and at.utcoffset() is not None:
                return FileChange(key, file, before, after, at, str(row["by"]))
        return None

    def _forget_undone(self, noted: Sequence[FileChange]) -> None:
        """Forget changes never made: the file is as before, and no later change builds on them."""
        for number, change in enumerate(noted):
            of_file = (each for each in noted[number + 1 :] if each.file == change.file)
            if any(later.before == change.after for later in of_file):
                continue
            try:
                now = self.text(change.file)
            except StorageError:
                continue
            if now == change.before != change.after:
                self.forget(change.key)

    def _lock_of(self, file: SharedFile) -> Path:
        top = str(file).partition("/")[0]
        return self._paths.lock_of(self._paths.root / top)

    def _place(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(key)
        return self._folder / f"{key}.json"

    def _prune(self, now: datetime) -> None:
        oldest = (now - _KEPT_FOR).timestamp()
        with suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.stat().st_mtime < oldest:
                    os.unlink(entry)


class CommandNotes:
    """Records what a command of the agent does in one folder of jobs, before it is done.

    `by` says where the agent called the command.
    """

    def __init__(self, former: UndoStore, folder: JobFolder, by: str, at: datetime) -> None:
        self._former = former
        self._folder = folder
        self._by = by
        self._at = at

    def leave(self, name: str, after: str | None) -> str:
        """Record a change; the caller holds the folder's lock.

        Returns a key. Raises `StorageError`.
        """
        key = secrets.token_hex(4)
        file = JobFile(self._folder, name)
        before = self._former.text(file)
        self._former.leave(FileChange(key, file, before, after, self._at, self._by))
        return key

    def forget(self, key: str) -> None:
        """Forget a change that will not be made."""
        self._former.forget(key)


def _row(change: FileChange) -> dict[str, object]:
    file = change.file
    folder, name = ("", file.value) if isinstance(file, ProfileFile) else (file.folder, file.name)
    return {"version": _VERSION, "folder": folder, "name": name, "before": change.before}


def _file(row: dict[str, object]) -> SharedFile:
    folder, name = str(row["folder"]), str(row["name"])
    return JobFile(JobFolder(folder), name) if folder else ProfileFile(name)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as refused:
        raise WriteFailed(folder, f"could not be made: {refused.strerror}.") from refused


def _digest(text: str | None) -> str:
    """The digest of the text; empty if there is no file."""
    return "" if text is None else hashlib.sha256(_bytes(text)).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
