"""What job files held before they were changed, so that a change can be undone."""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from ollim_bot.data_paths import DataPaths
from ollim_bot.domain.job_files import JobChange, JobFile, JobFolder, UndoEnd
from ollim_bot.errors import WriteFailed
from ollim_bot.plain_files import Largest
from ollim_bot.ports import Disk, Journal
from ollim_bot.storage.files import PRIVATE, SHARED, OsDisk, remove_durably, write_atomically
from ollim_bot.storage.jobs.checking import text_at
from ollim_bot.storage.locks import FileLock

_VERSION = 1
_KEPT_FOR = timedelta(days=30)
_KEY = re.compile(r"[0-9a-f]{8}")


class _Former(NamedTuple):
    """`after` is a digest of what took the place of `before`."""

    file: JobFile
    before: str | None
    after: str


class FormerTexts:
    """One file in `state/undo/` for each change, which goes when it was undone or is 30 days old.

    Whatever is undone is undone under the lock of the jobs' folder, so once.
    """

    def __init__(self, paths: DataPaths, journal: Journal, disk: Disk | None = None) -> None:
        self._paths = paths
        self._journal = journal
        self._disk = disk or OsDisk()
        self._folder = paths.state / "undo"

    def keep(self, change: JobChange) -> None:
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as refused:
            raise WriteFailed(self._folder, f"could not be made: {refused.strerror}.") from refused
        self._prune(change.at)
        row = {
            "version": _VERSION,
            "folder": change.file.folder,
            "name": change.file.name,
            "before": change.before,
            "after": _digest(change.after),
        }
        write_atomically(self._disk, self._place(change.key), json.dumps(row).encode(), PRIVATE)

    def undo(self, key: str) -> tuple[UndoEnd, JobFile | None]:
        former = self._former(key)
        if former is None:
            return UndoEnd.GONE, None
        folder = self._paths.root / former.file.folder
        with FileLock(self._paths.lock_of(folder)).held():
            # Another click may have been faster.
            end = UndoEnd.GONE if self._former(key) is None else self._undone(key, former)
            return end, former.file

    def _undone(self, key: str, former: _Former) -> UndoEnd:
        path, before = self._paths.root / str(former.file), former.before
        now = text_at(self._disk, path)
        if now != before:
            if _digest(now) != former.after:
                return UndoEnd.CHANGED_SINCE
            self._put_back(path, before)
            self._journal.note(path, f"undo: {former.file}")
        remove_durably(self._disk, self._place(key))
        return UndoEnd.REMOVED if before is None else UndoEnd.RESTORED

    def _put_back(self, path: Path, before: str | None) -> None:
        if before is None:
            remove_durably(self._disk, path)
        else:
            # A link stays a link: what it leads to is what is changed.
            write_atomically(self._disk, path.resolve(), _bytes(before), SHARED)

    def _former(self, key: str) -> _Former | None:
        """None if it is not there any more, or is not one that this program has written."""
        try:
            row = json.loads(self._disk.read(self._place(key), Largest.FORMER_JOB))
            file = JobFile(JobFolder(row["folder"]), str(row["name"]))
            before, after = row["before"], row["after"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        is_known = row.get("version") == _VERSION and isinstance(before, str | None)
        return _Former(file, before, str(after)) if is_known else None

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


def _digest(text: str | None) -> str:
    """Empty where there is no file."""
    return "" if text is None else hashlib.sha256(_bytes(text)).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
