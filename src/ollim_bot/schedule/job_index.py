"""The job files as they are now, and what changed since the last look."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ollim_bot.domain.jobs import Job, JobKind, kind_of
from ollim_bot.domain.schedule import JobKey, key_of
from ollim_bot.errors import DuplicateId, StorageError, Unreadable
from ollim_bot.paths import DataPaths
from ollim_bot.ports import Clock, Disk
from ollim_bot.schedule.hand_edits import HandEdits
from ollim_bot.schedule.watcher import SCAN_SECONDS
from ollim_bot.store.files import OsDisk
from ollim_bot.store.job_folder import FolderWatch, KeptVersions
from ollim_bot.store.job_formats import REMINDERS, ROUTINES, WEBHOOKS, JobFormat, JobReading

FORMS: Mapping[JobKind, JobFormat[Any]] = {
    form.kind: form for form in (ROUTINES, REMINDERS, WEBHOOKS)
}

# Editors that empty a file before they fill it, or save by renaming, are done within these.
SECONDS_TO_MEND = 1.0
SECONDS_TO_COME_BACK = 0.5


@dataclass(frozen=True, slots=True)
class IndexedJob:
    job: Job
    path: Path

    @property
    def key(self) -> JobKey:
        return key_of(self.job)

    @property
    def definition(self) -> str:
        """The same for two versions of a job exactly if nothing is different about them."""
        written = FORMS[kind_of(self.job)].written(self.job)
        text = json.dumps([written, self.job.spec.message], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class FileState:
    """One job file, and what it held when it was last there.

    `job` is its newest right version, which counts as long as there is no newer one. `since` is
    when the file was first seen as it is.
    """

    path: Path
    reading: JobReading[Any]
    job: Job | None
    since: float
    is_away: bool = False

    @property
    def is_right(self) -> bool:
        return self.reading.job is not None and not self.is_away

    @property
    def settles_at(self) -> float | None:
        """When what is wrong with it is no longer a matter of the moment."""
        if self.is_right:
            return None
        return self.since + (SECONDS_TO_COME_BACK if self.is_away else SECONDS_TO_MEND)

    def is_wrong_at(self, now: float) -> bool:
        """Wrong, and not just for a moment."""
        return not self.is_away and self.settles_at is not None and now >= self.settles_at

    @property
    def shown(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}"

    def turned(self, reading: JobReading[Any], now: float, *, touched: bool) -> FileState:
        if reading == self.reading and not (touched or self.is_away):
            return self
        return FileState(self.path, reading, reading.job or self.job, now)

    def away(self, now: float) -> FileState:
        return self if self.is_away else replace(self, is_away=True, since=now)


class FileProblem(NamedTuple):
    """`key` names what is wrong; the sentence may change with time."""

    key: str
    sentence: str
    stands_at: float


def turned(
    pages: Mapping[str, FileState],
    folder: Path,
    readings: Mapping[str, JobReading[Any]],
    touched: Container[str],
    kept: Mapping[str, Job],
    now: float,
) -> dict[str, FileState]:
    """The pages of a folder by file name, after another look at it.

    `touched` are the files that were written since. `kept` are the last good versions of files
    that are wrong when they are first seen.
    """
    after: dict[str, FileState] = {}
    for name, reading in readings.items():
        page = pages.get(name)
        if page is None:
            after[name] = FileState(folder / name, reading, reading.job or kept.get(name), now)
        else:
            after[name] = page.turned(reading, now, touched=name in touched)
    for name in pages.keys() - readings.keys():
        gone = pages[name].away(now)
        if now < gone.since + SECONDS_TO_COME_BACK:
            after[name] = gone
    return after


def claims(pages: Iterable[FileState]) -> dict[str, list[FileState]]:
    """The pages that claim each id: those that are right, else those that once were."""
    claimed: dict[str, list[FileState]] = {}
    for page in pages:
        if page.job is not None:
            claimed.setdefault(page.job.spec.id, []).append(page)
    for job_id, rivals in claimed.items():
        if len(rivals) > 1:
            claimed[job_id] = [page for page in rivals if page.is_right] or rivals
    return claimed


def first(rivals: Sequence[FileState], before: IndexedJob | None) -> FileState:
    """The one that had the id before, else the first by name."""
    if before is None or len(rivals) == 1:
        return rivals[0]
    return next((page for page in rivals if page.path == before.path), rivals[0])


def mistake_of(page: FileState) -> FileProblem | None:
    if not page.reading.problems:
        return None
    problems = "; ".join(problem.sentence(page.shown) for problem in page.reading.problems)
    end = (
        "It does not run until it is mended."
        if page.job is None
        else "Until it is mended, the version before stays in use."
    )
    return FileProblem(page.shown, f"{_ended(problems)} {end}", page.since + SECONDS_TO_MEND)


def doubled(rivals: Sequence[FileState], holder: FileState) -> FileProblem:
    """Of an id that several right files claim."""
    assert holder.job is not None
    job_id, files = holder.job.spec.id, [page.shown for page in rivals]
    sentence = f"{DuplicateId(job_id, files)} Until then, {holder.shown} is in use."
    stands_at = max(page.since for page in rivals) + SECONDS_TO_MEND
    return FileProblem(f"{kind_of(holder.job)} {job_id}", sentence, stands_at)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."


Readings = Mapping[str, JobReading[Any]]
Pages = Mapping[JobKind, Mapping[str, FileState]]


@dataclass(frozen=True, slots=True)
class FolderSnapshot:
    """What was found in the folders: the readings of each kind by file name.

    A kind whose folder could not be listed is in `refusals` instead, with a sentence. `touched` has
    the names of files that were written or removed since the look before, whether or not they say
    the same.
    """

    readings: Mapping[JobKind, Readings]
    refusals: Mapping[JobKind, str] = field(default_factory=dict)
    touched: Mapping[JobKind, Set[str]] = field(default_factory=dict)

    def shows_the_same_as(self, other: FolderSnapshot) -> bool:
        """Quickly told, as a look that finds nothing new returns the readings of the one before."""
        return self.refusals == other.refusals and all(
            other.readings.get(kind) is readings for kind, readings in self.readings.items()
        )


@dataclass(frozen=True, slots=True)
class IndexState:
    """`settles_at` is when time alone will change something."""

    sight: FolderSnapshot | None = None
    pages: Pages = field(default_factory=lambda: {kind: {} for kind in FORMS})
    jobs: Mapping[JobKey, IndexedJob] = field(default_factory=dict)
    mistakes: Sequence[FileProblem] = ()
    refusals: Mapping[JobKind, FileProblem] = field(default_factory=dict)
    settles_at: float | None = None

    def after(
        self,
        sight: FolderSnapshot,
        folders: Mapping[JobKind, Path],
        last_good: Mapping[JobKind, Mapping[str, Job]],
        now: float,
    ) -> IndexState:
        """What follows from another look. `last_good` counts for files not seen before."""
        has_settled = self.settles_at is not None and now >= self.settles_at
        if self.sight is not None and sight.shows_the_same_as(self.sight) and not has_settled:
            return self
        pages = dict(self.pages)
        for kind, readings in sight.readings.items():
            own, folder, kept = self.pages[kind], folders[kind], last_good[kind]
            touched = sight.touched.get(kind, frozenset())
            pages[kind] = turned(own, folder, readings, touched, kept, now)
        refusals = self._refusals(sight, folders, now)
        jobs, doubles = self._assigned(pages)
        every = [page for own in pages.values() for page in own.values()]
        wrong = [mistake for page in every if (mistake := mistake_of(page))]
        mistakes = [*refusals.values(), *wrong, *doubles]
        moments = [mistake.stands_at for mistake in mistakes]
        moments += [page.settles_at for page in every if page.settles_at is not None]
        settles_at = min((moment for moment in moments if moment > now), default=None)
        return IndexState(sight, pages, jobs, mistakes, refusals, settles_at)

    def _refusals(
        self, sight: FolderSnapshot, folders: Mapping[JobKind, Path], now: float
    ) -> dict[JobKind, FileProblem]:
        return {
            kind: self.refusals.get(kind)
            or FileProblem(str(folders[kind]), sentence, now + SECONDS_TO_MEND)
            for kind, sentence in sight.refusals.items()
        }

    def _assigned(self, pages: Pages) -> tuple[dict[JobKey, IndexedJob], list[FileProblem]]:
        """Each id to the one file that has it, and what to say of the others."""
        jobs: dict[JobKey, IndexedJob] = {}
        doubles: list[FileProblem] = []
        for kind, own in pages.items():
            for job_id, rivals in claims(own.values()).items():
                key = JobKey(kind, job_id)
                before = self.jobs.get(key)
                holder = first(rivals, before)
                jobs[key] = _booked(holder, before)
                if len(rivals) > 1 and holder.is_right:
                    doubles.append(doubled(rivals, holder))
        return jobs, doubles


def _booked(page: FileState, before: IndexedJob | None) -> IndexedJob:
    """The same object where nothing is different, which is the quickest to compare."""
    assert page.job is not None
    if before is not None and before.job is page.job and before.path is page.path:
        return before
    return IndexedJob(page.job, page.path)


_Fingerprint = tuple[int, int, int]


class SharedFiles:
    """The profile, the policy and the skills."""

    def __init__(self, paths: DataPaths) -> None:
        self._single = (paths.identity, paths.user, paths.tool_policy)
        self._skills = paths.skills
        self._known: dict[Path, _Fingerprint] | None = None

    def touched(self) -> Set[Path]:
        """What was written or removed since it was asked last; nothing at the first time."""
        known, found = self._known, dict(self._found())
        self._known = found
        if known is None or known == found:
            return frozenset()
        return {path for path in known.keys() | found.keys() if known.get(path) != found.get(path)}

    def _found(self) -> Iterator[tuple[Path, _Fingerprint]]:
        for path in self._single:
            with suppress(OSError):
                yield path, _fingerprint(os.stat(path))
        for skill in _listed(self._skills):
            for entry in _listed(Path(skill.path)):
                with suppress(OSError):
                    if entry.name.endswith(".md") and entry.is_file():
                        yield Path(entry.path), _fingerprint(entry.stat())


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _fingerprint(status: os.stat_result) -> _Fingerprint:
    return status.st_mtime_ns, status.st_size, status.st_ino


_logger = logging.getLogger(__name__)


class JobFiles:
    """The folders of one data directory, for one who looks at them again and again."""

    def __init__(self, paths: DataPaths, disk: Disk) -> None:
        self.folders = {
            JobKind.ROUTINE: paths.routines,
            JobKind.REMINDER: paths.reminders,
            JobKind.WEBHOOK: paths.webhooks,
        }
        self._folders = {
            kind: FolderWatch(path, FORMS[kind], disk) for kind, path in self.folders.items()
        }
        self._copies = {
            kind: KeptVersions(paths.state / "last_good" / path.name, FORMS[kind], disk)
            for kind, path in self.folders.items()
        }
        self._kept: dict[JobKind, dict[str, Job]] = {}

    def look(self) -> FolderSnapshot:
        if not self._kept:
            self._kept = {kind: self._copies_of(kind) for kind in FORMS}
        readings: dict[JobKind, Readings] = {}
        refusals: dict[JobKind, str] = {}
        touched: dict[JobKind, Set[str]] = {}
        for kind, folder in self._folders.items():
            try:
                look = folder.look()
            except Unreadable as refused:
                refusals[kind] = str(refused)
            else:
                readings[kind] = look.readings
                if look.touched:
                    touched[kind] = look.touched
        return FolderSnapshot(readings, refusals, touched)

    def touched(self, sight: FolderSnapshot) -> Iterator[Path]:
        for kind, names in sight.touched.items():
            yield from (self.folders[kind] / name for name in sorted(names))

    @property
    def last_good(self) -> Mapping[JobKind, Mapping[str, Job]]:
        """What files that are wrong now held when they were right, by file name."""
        return self._kept

    def keep_last_good(self, contents: IndexState, now: float) -> None:
        """For the files that are wrong now, and not just for a moment."""
        for kind in contents.pages.keys() - contents.refusals.keys():
            try:
                self._keep(kind, contents.pages[kind], now)
            except StorageError:  # it stays in use all the same, only not beyond a restart
                _logger.warning("The last good %s could not be kept", kind, exc_info=True)

    def _keep(self, kind: JobKind, pages: Mapping[str, FileState], now: float) -> None:
        kept, copies = self._kept[kind], self._copies[kind]
        for name in [name for name in kept if name not in pages or pages[name].is_right]:
            copies.drop(name)
            del kept[name]
        for name, page in pages.items():
            if page.job is not None and page.is_wrong_at(now) and kept.get(name) != page.job:
                copies.keep(name, page.job)
                kept[name] = page.job

    def _copies_of(self, kind: JobKind) -> dict[str, Job]:
        try:
            return self._copies[kind].all()
        except StorageError:
            _logger.warning("The last good %ss could not be read", kind, exc_info=True)
            return {}


_MOST_TOLD_AT_ONCE = 5
# What looking at files that nobody has changed may take of a core.
_MOST_OF_A_CORE = 0.002
_LONGEST_REST = 60.0


class Teller(Protocol):
    """`Notices`, as far as it matters here: what was told is not told again until forgotten."""

    async def tell(self, sentence: str) -> object: ...

    async def forget(self, key: str) -> None:
        """`key` is the sentence."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a look has brought. `problems` are the sentences that were told.

    `look_again_in` says in how many seconds a look finds more, even if no file changes. For
    `rest` seconds none is needed while the system tells of all changes.
    """

    added: Sequence[IndexedJob] = ()
    changed: Sequence[IndexedJob] = ()
    removed: Sequence[IndexedJob] = ()
    problems: Sequence[str] = ()
    look_again_in: float | None = None
    rest: float = SCAN_SECONDS

    @property
    def next_look_in(self) -> float:
        return self.rest if self.look_again_in is None else min(self.rest, self.look_again_in)

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed or self.problems)


class JobIndex:
    """Knows every job of the data directory. `refresh` it whenever a file may have changed.

    A file that is wrong, or away for a moment, leaves its last good version in the book. What is
    wrong is told when it is no passing state, and again only when it has become something else.
    """

    def __init__(
        self,
        paths: DataPaths,
        clock: Clock,
        teller: Teller,
        hand_edits: HandEdits,
        disk: Disk | None = None,
    ) -> None:
        self._clock = clock
        self._teller = teller
        self._hand_edits = hand_edits
        self._files = JobFiles(paths, disk or OsDisk())
        self._shared = SharedFiles(paths)
        self._contents = IndexState()
        self._told: dict[str, str] = {}
        self._one_at_a_time = asyncio.Lock()

    @property
    def jobs(self) -> Mapping[JobKey, IndexedJob]:
        return self._contents.jobs

    @property
    def problems(self) -> Sequence[str]:
        """All that is wrong now, told or not."""
        return [mistake.sentence for mistake in self._contents.mistakes]

    async def refresh(self) -> Changes:
        async with self._one_at_a_time:
            now, before = self._clock.monotonic(), self.jobs
            self._contents, waits, took = await asyncio.to_thread(self._looked, now)
            told = await self._tell(self._contents.mistakes, now)
            changes = _changes(before, self._contents.jobs, told, min(waits, default=None))
            return replace(changes, rest=rest_after(took))

    def _looked(self, now: float) -> tuple[IndexState, list[float], float]:
        """The contents now, in how many seconds there is more to do, and the CPU seconds that it
        takes to find nothing new."""
        began = time.thread_time()
        before, sight, shared = self._contents, self._files.look(), self._shared.touched()
        took = 0.0 if sight.touched else time.thread_time() - began
        # What changed before the first look has been committed when the bot started.
        if before.sight is not None:
            self._hand_edits.saw((*self._files.touched(sight), *shared))
        contents = before.after(sight, self._files.folders, self._files.last_good, now)
        if contents is not before:
            self._files.keep_last_good(contents, now)
        settled, edits = contents.settles_at, self._hand_edits.settle()
        waits = [] if settled is None else [settled - now]
        return contents, waits if edits is None else [*waits, edits], took

    async def _tell(self, mistakes: Sequence[FileProblem], now: float) -> Sequence[str]:
        there = {mistake.key for mistake in mistakes}
        for key in self._told.keys() - there:
            await self._teller.forget(self._told.pop(key))
        new = [m for m in mistakes if now >= m.stands_at and self._told.get(m.key) != m.sentence]
        for mistake in new:
            if mistake.key in self._told:
                await self._teller.forget(self._told[mistake.key])
            self._told[mistake.key] = mistake.sentence
        sentences = _in_short([mistake.sentence for mistake in new])
        for sentence in sentences:
            await self._teller.tell(sentence)
        return sentences


def rest_after(took: float) -> float:
    """How long the next look may wait after one that took so many CPU seconds to find nothing."""
    return min(max(SCAN_SECONDS, took / _MOST_OF_A_CORE), _LONGEST_REST)


def _in_short(sentences: Sequence[str]) -> Sequence[str]:
    """A folder full of wrong files is not a hundred notices."""
    more = len(sentences) - _MOST_TOLD_AT_ONCE
    if more <= 0:
        return sentences
    rest = (
        f"{more} more mistakes are in job files. `ollim-bot routine list` and "
        "`ollim-bot reminder list` show them."
    )
    return [*sentences[:_MOST_TOLD_AT_ONCE], rest]


def _changes(
    before: Mapping[JobKey, IndexedJob],
    after: Mapping[JobKey, IndexedJob],
    problems: Sequence[str],
    look_again_in: float | None,
) -> Changes:
    if before is after:
        return Changes(problems=problems, look_again_in=look_again_in)
    return Changes(
        added=[job for key, job in after.items() if key not in before],
        changed=[
            job
            for key, job in after.items()
            if key in before and job is not before[key] and job != before[key]
        ],
        removed=[job for key, job in before.items() if key not in after],
        problems=problems,
        look_again_in=look_again_in,
    )
