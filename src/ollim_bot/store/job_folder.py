"""Looks at a folder of job files and reports what changed."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ollim_bot.domain.jobs import Job, JobKind
from ollim_bot.errors import Unreadable
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import NotAFile, SizeLimit, TooLarge
from ollim_bot.store import frontmatter
from ollim_bot.store.document import BadDocument
from ollim_bot.store.files import PRIVATE, remove_durably, write_atomically
from ollim_bot.store.job_formats import FieldProblem, JobFormat, JobReading

if TYPE_CHECKING:
    from ollim_bot.ports import Disk

J = TypeVar("J", bound=Job)

# Two changes within the clock's resolution look like one, so a file this fresh is read again.
_GRAIN_NS = 100_000_000

# Change time, size and inode; None for a dangling name.
_Fingerprint = tuple[int, int, int] | None


class FolderReading(NamedTuple, Generic[J]):
    """What each `*.md` holds, by file name, in order.

    `touched` are the names of files that are new, written or removed since the last look. Without
    any, `readings` is the same object as before.
    """

    readings: Mapping[str, JobReading[J]]
    touched: Set[str] = frozenset()


# The newest reading of each file of a folder that was not fresh, for all threads that look at it.
SharedReadings = dict[str, tuple[_Fingerprint, JobReading[Any]]]


def shared_readings() -> dict[JobKind, SharedReadings]:
    """What the watches of one data directory have in common; nothing is read yet."""
    return {kind: {} for kind in JobKind}


class _Known(NamedTuple, Generic[J]):
    """The last look; `fresh` files may change without looking different."""

    fingerprints: Mapping[str, _Fingerprint]
    readings: Mapping[str, JobReading[J]]
    fresh: frozenset[str] = frozenset()


class FolderWatch(Generic[J]):
    """Reads only the files that changed since the last look.

    Watches of one folder that have `shared` in common read each version of a file once.
    """

    def __init__(
        self,
        folder: Path,
        form: JobFormat[J],
        disk: Disk,
        shared: SharedReadings | None = None,
    ) -> None:
        self.path = folder
        self.form = form
        self.disk = disk
        self._shared: SharedReadings = {} if shared is None else shared
        self._known: _Known[J] = _Known({}, {})

    def look(self) -> FolderReading[J]:
        """Look at the folder. Raises `Unreadable` if it exists and cannot be listed."""
        known, listed = self._known, self._listed()
        if listed == known.fingerprints and not known.fresh:
            return FolderReading(known.readings)
        gone = known.readings.keys() - listed.keys()
        found = {name: known.readings[name] for name in known.readings if name not in gone}
        touched, fresh, now = set(gone), set(), time.time_ns()
        for name, fingerprint in listed.items():
            is_same = name in found and known.fingerprints[name] == fingerprint
            if is_same and name not in known.fresh:
                continue
            is_fresh = fingerprint is None or abs(now - fingerprint[0]) <= _GRAIN_NS
            before = found.pop(name, None)
            after = self._read_file(name, None if is_fresh else fingerprint)
            if after is not None:
                found[name] = before if before is not None and before == after else after
            if not is_same or before != after:
                touched.add(name)
            if is_fresh:
                fresh.add(name)
        for name in gone:
            self._shared.pop(name, None)
        readings = {name: found[name] for name in sorted(found)}
        fingerprints = {name: listed[name] for name in readings}
        self._known = _Known(fingerprints, readings, frozenset(fresh))
        return FolderReading(readings, touched)

    def text(self, name: str) -> str:
        """The text of the file. Raises `FileNotFoundError`, or `BadDocument` if it is no text."""
        path = self.path / name
        try:
            raw = self.disk.read(path, SizeLimit.JOB)
        except FileNotFoundError:
            if path.is_symlink():
                raise BadDocument(None, "is a link that leads nowhere") from None
            raise
        except NotAFile:
            raise BadDocument(None, "is not a file") from None
        except TooLarge:
            raise BadDocument(None, f"is larger than {SizeLimit.JOB} bytes") from None
        except OSError as refused:
            reason = refused.strerror or str(refused)
            raise BadDocument(None, f"cannot be read: {reason}") from None
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise BadDocument(line, "is not UTF-8 text") from None

    def read_text(self, text: str) -> JobReading[J]:
        try:
            return self.form.read(frontmatter.parse(text))
        except BadDocument as bad:
            return _unreadable(bad)

    def _read_file(self, name: str, fingerprint: _Fingerprint) -> JobReading[J] | None:
        """The reading; None if the file was removed since it was listed.

        That of a fingerprint is shared; a fresh file has none.
        """
        known = self._shared.get(name)
        if known is not None and fingerprint is not None and known[0] == fingerprint:
            return known[1]
        try:
            reading = self.read_text(self.text(name))
        except FileNotFoundError:
            return None
        except BadDocument as bad:
            reading = _unreadable(bad)
        if fingerprint is not None:
            self._shared[name] = fingerprint, reading
        return reading

    def _listed(self) -> dict[str, _Fingerprint]:
        try:
            with os.scandir(self.path) as entries:
                return {
                    entry.name: _fingerprint(entry)
                    for entry in entries
                    if entry.name.endswith(".md") and not entry.name.startswith(".")
                }
        except FileNotFoundError:
            return {}
        except OSError as refused:
            reason = refused.strerror or str(refused)
            raise Unreadable(self.path, f"cannot be listed: {reason}.") from refused


def _fingerprint(entry: os.DirEntry[str]) -> _Fingerprint:
    try:
        status = entry.stat()
    except OSError:
        return None
    return status.st_ctime_ns, status.st_size, status.st_ino


def _unreadable(bad: BadDocument) -> JobReading[J]:
    return JobReading(None, None, (FieldProblem(bad.reason, None, bad.line),))


def kept_versions(
    paths: DataPaths, folder: Path, form: JobFormat[J], disk: Disk
) -> KeptVersions[J]:
    """The last valid versions of the files of a job folder that were wrong when they were kept."""
    return KeptVersions(paths.state / "last_good" / folder.name, form, disk)


class KeptVersions(Generic[J]):
    """One copy for each file name, in a folder of its own. Only one process may write there."""

    def __init__(self, folder: Path, form: JobFormat[J], disk: Disk) -> None:
        self._folder = folder
        self._form = form
        self._disk = disk
        self._readings = FolderWatch(folder, form, disk)

    def all(self) -> dict[str, J]:
        """All copies by file name. Raises `Unreadable`."""
        readings = self._readings.look().readings
        return {name: reading.job for name, reading in readings.items() if reading.job is not None}

    def keep(self, name: str, job: J) -> None:
        """Keep a copy. Raises `WriteFailed`."""
        text = frontmatter.render(self._form.written(job), job.spec.message)
        with suppress(OSError):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
        data = text.encode("utf-8", "surrogateescape")
        write_atomically(self._disk, self._folder / name, data, PRIVATE)

    def drop(self, name: str) -> None:
        """Remove a copy. Raises `WriteFailed`."""
        remove_durably(self._disk, self._folder / name)
