"""Reading a folder of job files, in which people may leave anything at any time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

from ollim_bot.domain.jobs import Job
from ollim_bot.errors import Unreadable
from ollim_bot.ports import Disk
from ollim_bot.storage.documents import frontmatter
from ollim_bot.storage.documents.document import BadDocument
from ollim_bot.storage.files import NotAFile
from ollim_bot.storage.jobs.form import FieldProblem, JobFormat, JobReading

J = TypeVar("J", bound=Job)

LARGEST = 1_000_000
# A file that changes twice within the clock's grain looks unchanged: so fresh a look is not kept.
_GRAIN_NS = 100_000_000

# Changed, size and number of the file; None for a name that leads nowhere.
_Fingerprint = tuple[int, int, int] | None


class JobFolder(Generic[J]):
    """Only files that changed since the last look are read again."""

    def __init__(self, folder: Path, form: JobFormat[J], disk: Disk) -> None:
        self._folder = folder
        self._form = form
        self._disk = disk
        self._known: dict[str, tuple[_Fingerprint, JobReading[J]]] = {}

    def readings(self) -> dict[str, JobReading[J]]:
        """What each `*.md` holds, by file name, in order."""
        known = self._known
        fresh: dict[str, tuple[_Fingerprint, JobReading[J]]] = {}
        readings: dict[str, JobReading[J]] = {}
        now = time.time_ns()
        for name, fingerprint in sorted(self._listed(), key=lambda entry: entry[0]):
            kept = known.get(name)
            reading = kept[1] if kept and kept[0] == fingerprint else self._reading(name)
            if reading is None:
                continue
            readings[name] = reading
            if fingerprint is not None and abs(now - fingerprint[0]) > _GRAIN_NS:
                fresh[name] = (fingerprint, reading)
        self._known = fresh
        return readings

    def text(self, name: str) -> str:
        """Raises `BadDocument` for what can never be a job, `FileNotFoundError` if it is gone."""
        path = self._folder / name
        try:
            raw = self._disk.read(path)
        except FileNotFoundError:
            if path.is_symlink():
                raise BadDocument(None, "is a link that leads nowhere") from None
            raise
        except (NotAFile, IsADirectoryError):
            raise BadDocument(None, "is not a file") from None
        except OSError as refused:
            reason = refused.strerror or str(refused)
            raise BadDocument(None, f"cannot be read: {reason}") from None
        if len(raw) > LARGEST:
            raise BadDocument(None, f"is larger than {LARGEST} bytes")
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise BadDocument(line, "is not UTF-8 text") from None

    def read_text(self, text: str) -> JobReading[J]:
        try:
            return self._form.read(frontmatter.parse(text))
        except BadDocument as bad:
            return _unreadable(bad)

    def _reading(self, name: str) -> JobReading[J] | None:
        """None if the file went away since it was listed."""
        try:
            return self.read_text(self.text(name))
        except FileNotFoundError:
            return None
        except BadDocument as bad:
            return _unreadable(bad)

    def _listed(self) -> Iterator[tuple[str, _Fingerprint]]:
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.name.endswith(".md") and not entry.name.startswith("."):
                        yield entry.name, _fingerprint(entry)
        except FileNotFoundError:
            return
        except OSError as refused:
            reason = refused.strerror or str(refused)
            raise Unreadable(self._folder, f"cannot be listed: {reason}.") from refused


def _fingerprint(entry: os.DirEntry[str]) -> _Fingerprint:
    try:
        status = entry.stat()
    except OSError:
        return None
    return status.st_ctime_ns, status.st_size, status.st_ino


def _unreadable(bad: BadDocument) -> JobReading[J]:
    return JobReading(None, None, (FieldProblem(bad.reason, None, bad.line),))
