"""Reads and changes the job files of a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from ollim_bot.kernel.base.errors import (
    BadJob,
    ChangedMeanwhile,
    DuplicateId,
    EditRefused,
    JobNotFound,
    Unreadable,
)
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import NotAFile, SizeLimit, TooLarge
from ollim_bot.kernel.base.text import slug
from ollim_bot.kernel.store import frontmatter
from ollim_bot.kernel.store.document import BadDocument
from ollim_bot.kernel.store.files import (
    PRIVATE,
    SHARED,
    FileLock,
    FileReadings,
    SeenFile,
    Stamp,
    create_atomically,
    remove_durably,
    replace_unchanged,
    stamp,
    write_atomically,
)
from ollim_bot.kernel.store.frontmatter import CannotEdit
from ollim_bot.kernel.store.job_formats import FieldProblem, JobFormat, JobReading
from ollim_bot.kernel.values.jobs import Job, JobText, RepositoryReport, StoredJob

if TYPE_CHECKING:
    from ollim_bot.kernel.values.ports import Disk, Journal

J = TypeVar("J", bound=Job)

Readings = Mapping[str, SeenFile[JobReading[J]]]


class JobFileIndex(Generic[J]):
    """The `*.md` of a folder: what each holds by its name, each version read once."""

    def __init__(self, folder: Path, form: JobFormat[J], disk: Disk) -> None:
        self.path = folder
        self.form = form
        self.disk = disk
        self._files = FileReadings(self._listed, self._read_file)

    def look(self) -> Readings[J]:
        """Look at the folder. Raises `Unreadable` if it exists and cannot be listed."""
        return self._files.look()

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

    def _read_file(self, name: str) -> JobReading[J]:
        try:
            return read_text(self.form, self.text(name))
        except BadDocument as bad:
            return _unreadable(bad)

    def _listed(self) -> dict[str, Stamp]:
        try:
            with os.scandir(self.path) as entries:
                return {
                    entry.name: stamp(entry)
                    for entry in entries
                    if entry.name.endswith(".md") and not entry.name.startswith(".")
                }
        except FileNotFoundError:
            return {}
        except OSError as refused:
            reason = refused.strerror or str(refused)
            raise Unreadable(self.path, f"cannot be listed: {reason}.") from refused


def read_text(form: JobFormat[J], text: str) -> JobReading[J]:
    """What the text of a file holds."""
    try:
        return form.read(frontmatter.parse(text))
    except BadDocument as bad:
        return _unreadable(bad)


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
        self._readings = JobFileIndex(folder, form, disk)

    def all(self) -> dict[str, J]:
        """All copies by file name. Raises `Unreadable`."""
        found = {name: each.content.job for name, each in self._readings.look().items()}
        return {name: job for name, job in found.items() if job is not None}

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


ChooseHolder = Callable[[Sequence[Job]], int]


# Surrounds a change of the file at this place below the data directory; the text is None for a
# removal. What it raises prevents the change.
KeepChange = Callable[[str, str | None], AbstractContextManager[object]]


class MarkdownRepository(Generic[J]):
    """A `JobRepository`. A document is named by its id, or if that is invalid by its file name.

    With `keep`, each change is kept before it is made, under the same lock. Where several files
    have one id, `choose_holder` returns the index of the job that is in use. `plan` gives a job
    that follows its answers the moment that the last one has set.
    """

    def __init__(
        self,
        folder: JobFileIndex[J],
        lock: FileLock,
        *,
        journal: Journal,
        keep: KeepChange = lambda _place, _after: nullcontext(),
        choose_holder: ChooseHolder = lambda _rivals: 0,
        plan: Callable[[Job], Job] = lambda job: job,
    ) -> None:
        self._path = folder.path
        self._folder = folder
        self._form = folder.form
        self._lock = lock
        self._disk = folder.disk
        self._journal = journal
        self._keep = keep
        self._choose_holder = choose_holder
        self._plan = plan
        nothing: Readings[J] = {}
        # The readings, what they say, and whether one of the jobs follows its answers.
        self._reported = nothing, RepositoryReport[J](()), False

    def report(self) -> RepositoryReport[J]:
        readings = self._folder.look()
        before, report, has_plans = self._reported
        if readings is not before:
            report = self._reported_on(readings)
            has_plans = any(each.item.follows_answers for each in report.jobs)
            self._reported = readings, report, has_plans
        if not has_plans:
            return report
        return report._replace(
            jobs=[StoredJob(self._planned(each.item), each.path) for each in report.jobs]
        )

    def all(self) -> Sequence[StoredJob[J]]:
        return self.report().jobs

    def get(self, item_id: str) -> StoredJob[J]:
        name, reading = self._find(item_id)
        if reading.job is None:
            raise BadJob(self._sentences(name, reading.problems))
        return StoredJob(self._planned(reading.job), self._path / name)

    def _planned(self, job: J) -> J:
        return cast("J", self._plan(job)) if job.follows_answers else job

    def add(self, item: J) -> Path:
        job_id = item.spec.id
        text = frontmatter.render(self._form.written(item), item.spec.message)
        if self._right("the new file", text) != item:
            raise BadJob([f"the new file: {self._form.kind} {job_id} cannot be written as it is"])
        with self._lock.held():
            names = [name for name, each in self._readings() if each.job_id == job_id]
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
                with self._keep(self._shown(name), after):
                    # Keep a link and edit its target.
                    write_atomically(self._disk, path.resolve(), data, SHARED)
        if after != before:
            self._journal.note(path, f"edit {self._form.kind} {job.spec.id}")
        return self._planned(job)

    def text_of(self, item_id: str) -> JobText:
        name, _ = self._find(item_id)
        return self._text(name)

    def rewrite(self, item_id: str, text: str, version: str) -> J:
        with self._lock.held():
            name, _ = self._find(item_id)
            before, path = self._text(name), self._path / name
            if before.version != version:
                raise ChangedMeanwhile(self._shown(name))
            job = self._right(self._shown(name), text)
            same = [other for other, each in self._readings() if each.job_id == job.spec.id]
            if others := {*same} - {name}:
                raise self._duplicate(job.spec.id, [name, *sorted(others)])
            if text != before.text:
                data = _utf8(text)
                with self._keep(self._shown(name), text):
                    # Keep a link and edit its target, unless an editor has just written it.
                    former = before.text.encode()
                    if not replace_unchanged(self._disk, path.resolve(), former, data, SHARED):
                        raise ChangedMeanwhile(self._shown(name))
        if text != before.text:
            self._journal.note(path, f"edit {self._form.kind} {job.spec.id}")
        return self._planned(job)

    def remove(self, item_id: str) -> Path:
        with self._lock.held():
            name, _ = self._find(item_id)
            path = self._path / name
            with self._keep(self._shown(name), None):
                remove_durably(self._disk, path)
        self._journal.note(path, f"remove {self._form.kind} {item_id}")
        return path

    def _readings(self) -> list[tuple[str, JobReading[J]]]:
        return [(name, each.content) for name, each in self._folder.look().items()]

    def _reported_on(self, versions: Readings[J]) -> RepositoryReport[J]:
        readings = {name: each.content for name, each in versions.items()}
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
        readings = dict(self._readings())
        names = [name for name, reading in readings.items() if reading.job_id == item_id]
        names = names or [name for name in readings if name == item_id]
        if not names:
            raise JobNotFound(self._form.kind, item_id)
        if len(names) > 1:
            raise self._duplicate(item_id, names)
        return names[0], readings[names[0]]

    def _edited(
        self, name: str, changes: Mapping[str, object], body: str | None
    ) -> tuple[str, str]:
        before = self._text(name).text
        try:
            return before, frontmatter.edited(before, changes, body)
        except BadDocument as bad:
            raise self._bad(name, bad) from None
        except CannotEdit as refused:
            raise EditRefused(self._path / name, f"{refused}. Edit the file by hand.") from None

    def _text(self, name: str) -> JobText:
        try:
            return JobText(name, self._folder.text(name))
        except FileNotFoundError:
            raise JobNotFound(self._form.kind, name) from None
        except BadDocument as bad:
            raise self._bad(name, bad) from None

    def _bad(self, name: str, bad: BadDocument) -> BadJob:
        return BadJob(self._sentences(name, [FieldProblem(bad.reason, None, bad.line)]))

    def _right(self, shown: str, text: str) -> J:
        """The job that `text` describes; raises `BadJob` with all problems."""
        reading = read_text(self._form, text)
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
        if os.path.lexists(path):
            return False
        with suppress(ChangedMeanwhile), self._keep(self._shown(path.name), text):
            if create_atomically(self._disk, path, data, SHARED):
                return True
            raise ChangedMeanwhile(self._shown(path.name))
        return False

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
