"""The last good version of each job file that is wrong now, so that a restart does not lose it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from ollim_bot.domain.jobs import Job
from ollim_bot.ports import Disk
from ollim_bot.storage.documents import frontmatter
from ollim_bot.storage.files import PRIVATE, remove_durably, write_atomically
from ollim_bot.storage.jobs.folder import JobFolder
from ollim_bot.storage.jobs.form import JobFormat

J = TypeVar("J", bound=Job)


class KeptVersions(Generic[J]):
    """One copy for each file name, in a folder of their own. Only one may write there."""

    def __init__(self, folder: Path, form: JobFormat[J], disk: Disk) -> None:
        self._folder = folder
        self._form = form
        self._disk = disk
        self._readings = JobFolder(folder, form, disk)

    def all(self) -> dict[str, J]:
        """By file name. Raises `Unreadable`."""
        readings = self._readings.readings()
        return {name: reading.job for name, reading in readings.items() if reading.job is not None}

    def keep(self, name: str, job: J) -> None:
        """Raises `WriteFailed`."""
        text = frontmatter.render(self._form.written(job), job.spec.message)
        with suppress(OSError):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
        data = text.encode("utf-8", "surrogateescape")
        write_atomically(self._disk, self._folder / name, data, PRIVATE)

    def drop(self, name: str) -> None:
        """Raises `WriteFailed`."""
        remove_durably(self._disk, self._folder / name)
