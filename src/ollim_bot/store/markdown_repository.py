"""Job files in a folder, each changed without touching anything else that a person wrote."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ollim_bot.domain.jobs import Job, RepositoryReport, StoredJob
from ollim_bot.domain.text import slug
from ollim_bot.errors import BadJob, DuplicateId, EditRefused, NotFound
from ollim_bot.plain_files import SizeLimit
from ollim_bot.store import frontmatter
from ollim_bot.store.document import BadDocument
from ollim_bot.store.files import (
    SHARED,
    FileLock,
    create_atomically,
    remove_durably,
    write_atomically,
)
from ollim_bot.store.frontmatter import CannotEdit
from ollim_bot.store.job_folder import FolderWatch
from ollim_bot.store.job_formats import FieldProblem, JobReading

if TYPE_CHECKING:
    from ollim_bot.ports import Journal

J = TypeVar("J", bound=Job)

ChooseHolder = Callable[[Sequence[Job]], int]


class Notes(Protocol):
    """Records what is about to be done to the files of a folder, for other processes."""

    def leave(self, name: str, after: str | None) -> str:
        """Record a change; `after` is None for a removal. Returns a key. Raises `StorageError`."""

    def forget(self, key: str) -> None:
        """Forget a change that will not be made."""


class MarkdownRepository(Generic[J]):
    """A `JobRepository`. A document is named by its id, or if that is invalid by its file name.

    With `notes`, each change is noted before it is made, under the same lock. Where several files
    have one id, `choose_holder` returns the index of the job that is in use.
    """

    def __init__(
        self,
        folder: FolderWatch[J],
        lock: FileLock,
        *,
        journal: Journal,
        notes: Notes | None = None,
        choose_holder: ChooseHolder = lambda _rivals: 0,
    ) -> None:
        self._path = folder.path
        self._folder = folder
        self._form = folder.form
        self._lock = lock
        self._disk = folder.disk
        self._journal = journal
        self._notes = notes
        self._choose_holder = choose_holder
        nothing: Mapping[str, JobReading[J]] = {}
        self._reported = nothing, RepositoryReport[J](())

    def report(self) -> RepositoryReport[J]:
        readings = self._folder.look().readings
        before, report = self._reported
        if readings is not before:
            report = self._reported_on(readings)
            self._reported = readings, report
        return report

    def all(self) -> Sequence[StoredJob[J]]:
        return self.report().jobs

    def get(self, item_id: str) -> StoredJob[J]:
        name, reading = self._find(item_id)
        if reading.job is None:
            raise BadJob(self._sentences(name, reading.problems))
        return StoredJob(reading.job, self._path / name)

    def add(self, item: J) -> Path:
        job_id = item.spec.id
        text = frontmatter.render(self._form.written(item), item.spec.message)
        if self._right("the new file", text) != item:
            raise BadJob([f"the new file: {self._form.kind} {job_id} cannot be written as it is"])
        with self._lock.held():
            readings = self._folder.look().readings
            names = [name for name, reading in readings.items() if reading.job_id == job_id]
            if names:
                raise self._duplicate(job_id, [*names, "the new file"])
            path = self._create(slug(item.spec.title) or job_id, text)
        self._journal.note(path, f"add {self._form.kind} {job_id}")
        return path

    def amend(
        self,
        item_id: str,
        changes: Mapping[str, object],
        body: str | None = None,
        approve: Callable[[J | None, J], None] | None = None,
    ) -> J:
        """Change the job.

        `approve` gets the job before and after; if it raises, nothing changes.
        """
        with self._lock.held():
            name, reading = self._find(item_id)
            path = self._path / name
            before, after = self._edited(name, changes, body)
            job = self._right(self._shown(name), after)
            if approve is not None:
                approve(reading.job, job)
            if after != before:
                data = _utf8(after)
                if self._notes is not None:
                    self._notes.leave(name, after)
                # Keep a link and edit its target.
                write_atomically(self._disk, path.resolve(), data, SHARED)
        if after != before:
            self._journal.note(path, f"edit {self._form.kind} {job.spec.id}")
        return job

    def remove(self, item_id: str) -> Path:
        with self._lock.held():
            name, _ = self._find(item_id)
            path = self._path / name
            if self._notes is not None:
                self._notes.leave(name, None)
            remove_durably(self._disk, path)
        self._journal.note(path, f"remove {self._form.kind} {item_id}")
        return path

    def _reported_on(self, readings: Mapping[str, JobReading[J]]) -> RepositoryReport[J]:
        files: dict[str, list[str]] = {}
        for name, reading in readings.items():
            if reading.job is not None:
                files.setdefault(reading.job.spec.id, []).append(name)
        doubled = {job_id: names for job_id, names in files.items() if len(names) > 1}
        # Of each id that several files have, the file that is in use.
        holders: dict[str, str] = {}
        for job_id, names in doubled.items():
            rivals = [job for name in names if (job := readings[name].job) is not None]
            holders[job_id] = names[self._choose_holder(rivals)]
        jobs: list[StoredJob[J]] = []
        problems: list[str] = []
        warnings: list[str] = []
        for name, reading in readings.items():
            problems += self._sentences(name, reading.problems)
            warnings += self._sentences(name, reading.warnings)
            if reading.job is not None and holders.get(reading.job.spec.id, name) == name:
                jobs.append(StoredJob(reading.job, self._path / name))
        for job_id, names in doubled.items():
            holder = self._shown(holders[job_id])
            problems.append(str(DuplicateId(job_id, list(map(self._shown, names)), holder)))
        return RepositoryReport(jobs, problems, warnings)

    def _find(self, item_id: str) -> tuple[str, JobReading[J]]:
        readings = self._folder.look().readings
        names = [name for name, reading in readings.items() if reading.job_id == item_id]
        names = names or [name for name in readings if name == item_id]
        if not names:
            raise NotFound(self._form.kind, item_id)
        if len(names) > 1:
            raise self._duplicate(item_id, names)
        return names[0], readings[names[0]]

    def _edited(
        self, name: str, changes: Mapping[str, object], body: str | None
    ) -> tuple[str, str]:
        try:
            before = self._folder.text(name)
            return before, frontmatter.edited(before, changes, body)
        except FileNotFoundError:
            raise NotFound(self._form.kind, name) from None
        except BadDocument as bad:
            problem = FieldProblem(bad.reason, None, bad.line)
            raise BadJob(self._sentences(name, [problem])) from None
        except CannotEdit as refused:
            raise EditRefused(self._path / name, f"{refused}. Edit the file by hand.") from None

    def _right(self, shown: str, text: str) -> J:
        """The job that `text` describes; raises `BadJob` with all problems."""
        reading = self._folder.read_text(text)
        if reading.job is None:
            raise BadJob([problem.sentence(shown) for problem in reading.problems])
        return reading.job

    def _create(self, stem: str, text: str) -> Path:
        names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
        paths = (self._path / f"{name}.md" for name in names)
        return next(path for path in paths if self._is_created(path, text))

    def _is_created(self, path: Path, text: str) -> bool:
        """Create the file; False if the name is taken."""
        data = _utf8(text)
        if self._notes is None:
            return create_atomically(self._disk, path, data, SHARED)
        if os.path.lexists(path):
            return False
        key = self._notes.leave(path.name, text)
        is_created = create_atomically(self._disk, path, data, SHARED)
        if not is_created:
            self._notes.forget(key)
        return is_created

    def _shown(self, name: str) -> str:
        return f"{self._path.name}/{name}"

    def _sentences(self, name: str, problems: Sequence[FieldProblem]) -> list[str]:
        return [problem.sentence(self._shown(name)) for problem in problems]

    def _duplicate(self, job_id: str, names: Sequence[str]) -> DuplicateId:
        shown = [self._shown(name) if name.endswith(".md") else name for name in names]
        return DuplicateId(job_id, shown)


def _utf8(text: str) -> bytes:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        wrong = text[error.start : error.start + 1]
        raise BadJob([f"{wrong!r} is not a character that can be written to a file"]) from None
    if len(data) > SizeLimit.JOB:
        raise BadJob([f"a job of {len(data)} bytes is too large; {SizeLimit.JOB} is the most"])
    return data
