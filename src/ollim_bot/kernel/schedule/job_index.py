"""The index of the job files, and what changed since the last look."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ollim_bot.kernel.base.clock import Clock, zone_of
from ollim_bot.kernel.base.errors import DuplicateId, StorageError, Unreadable
from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.base.logs import refusal_logged, unless_refused
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.change_journal import ChangeJournal
from ollim_bot.kernel.changes.job_files import JobFolders, job_folders
from ollim_bot.kernel.schedule.watcher import SCAN_SECONDS
from ollim_bot.kernel.store.answer_plan_rows import follow_plans
from ollim_bot.kernel.store.calendar_files import CalendarFiles, sources_stamp
from ollim_bot.kernel.store.files import OsDisk, Stamp, stamps, touched
from ollim_bot.kernel.store.job_folder import Readings, kept_versions
from ollim_bot.kernel.store.job_formats import ALLOWED_TOOLS, JobReading
from ollim_bot.kernel.store.job_types import JOB_TYPES
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.answer_plans import with_plan
from ollim_bot.kernel.values.definitions import holder_among
from ollim_bot.kernel.values.jobs import Job, Reminder, Routine, list_names
from ollim_bot.kernel.values.ports import Disk
from ollim_bot.kernel.values.schedule import ScheduledJob

# Editors that empty a file before they write it, or save by renaming, finish within these times.
SECONDS_TO_MEND = 1.0
SECONDS_TO_COME_BACK = 0.5


@dataclass(frozen=True, slots=True)
class IndexedJob:
    job: Job
    path: Path


@dataclass(frozen=True, slots=True)
class FileState:
    """One job file, with its last reading.

    `job` is the newest valid version, which stays in use until there is a newer one. `since` is
    when the file was first seen in this state.
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
    def settles_at(self) -> float:
        """When the problem of a file that is not right has lasted too long to be an edit."""
        return self.since + (SECONDS_TO_COME_BACK if self.is_away else SECONDS_TO_MEND)

    @property
    def shown(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}"


class FileProblem(NamedTuple):
    """`key` identifies the problem; its sentence may change with time."""

    key: str
    sentence: str
    stands_at: float
    kind: JobKind


def states_after(
    files: Mapping[str, FileState],
    folder: Path,
    versions: Readings[Any],
    touched_names: Container[str],
    kept: Mapping[str, Job],
    now: float,
) -> dict[str, FileState]:
    """The files of a folder by file name, after another look at it.

    `touched_names` are the files written since the last look. `kept` are the last valid versions,
    for files that are wrong when they are first seen.
    """
    after: dict[str, FileState] = {}
    for name, (_, reading) in versions.items():
        file = files.get(name)
        if file is None:
            after[name] = FileState(folder / name, reading, reading.job or kept.get(name), now)
        elif not (name in touched_names or file.is_away):
            after[name] = file
        else:
            after[name] = FileState(file.path, reading, reading.job or file.job, now)
    for name in files.keys() - versions.keys():
        gone = files[name]
        if not gone.is_away:
            gone = replace(gone, is_away=True, since=now)
        if now < gone.since + SECONDS_TO_COME_BACK:
            after[name] = gone
    return after


def problem_of(kind: JobKind, file: FileState) -> FileProblem:
    """The problem of a file that cannot be read as a job."""
    problems = "; ".join(problem.sentence(file.shown) for problem in file.reading.problems)
    end = (
        "It does not run until it is mended."
        if file.job is None
        else "Until it is mended, the version before stays in use."
    )
    stands_at = file.since + SECONDS_TO_MEND
    return FileProblem(file.shown, f"{_ended(problems)} {end}", stands_at, kind)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."


Versions = Mapping[JobKind, Readings[Any]]
FileStates = Mapping[JobKind, Mapping[str, FileState]]


@dataclass(frozen=True, slots=True)
class IndexState:
    """The jobs and problems after a look; at `settles_at` it needs another one.

    `versions` is what the folders held; None before the first look. `armed` has the marks of the
    jobs that were armed before it.
    """

    versions: Versions | None = None
    files: FileStates = field(default_factory=lambda: {kind: {} for kind in JOB_TYPES})
    jobs: Mapping[JobKey, IndexedJob] = field(default_factory=dict)
    problems: Sequence[FileProblem] = ()
    refusals: Mapping[JobKind, FileProblem] = field(default_factory=dict)
    settles_at: float | None = None
    armed: Mapping[JobKey, str] = field(default_factory=dict)

    def touched(self, versions: Versions) -> dict[JobKind, set[str]]:
        """The names of the files of each kind that were written or removed since this look."""
        known = self.versions or {}
        return {kind: touched(known.get(kind, {}), found) for kind, found in versions.items()}

    def after(
        self,
        versions: Versions,
        refused: Mapping[JobKind, str],
        folders: JobFolders,
        last_good: Mapping[JobKind, Mapping[str, Job]],
        now: float,
    ) -> IndexState:
        """The state after another look, with a sentence for each folder that cannot be listed.

        `last_good` has earlier versions for files not seen before.
        """
        has_settled = self.settles_at is not None and now >= self.settles_at
        names = self.touched(versions)
        is_new = (
            self.versions is None or any(names.values()) or refused.keys() != self.refusals.keys()
        )
        if not (is_new or has_settled):
            return self
        files = dict(self.files)
        for kind, found in versions.items():
            own, path, kept = self.files[kind], folders[kind].path, last_good[kind]
            files[kind] = states_after(own, path, found, names[kind], kept, now)
        refusals = {
            kind: self.refusals.get(kind)
            or FileProblem(str(folders[kind].path), sentence, now + SECONDS_TO_MEND, kind)
            for kind, sentence in refused.items()
        }
        jobs, doubles = self._assign_ids(files)
        every = [(kind, file) for kind, own in files.items() for file in own.values()]
        wrong = [problem_of(kind, file) for kind, file in every if file.reading.problems]
        problems = [*refusals.values(), *wrong, *doubles]
        for kind, file in every:
            # The patterns of a valid job that allow nothing.
            unknown = [each for each in file.reading.warnings if each.field == ALLOWED_TOOLS]
            if unknown and file.is_right:
                sentence = _ended("; ".join(each.sentence(file.shown) for each in unknown))
                stands_at = file.since + SECONDS_TO_MEND
                problems.append(FileProblem(f"{file.shown} tools", sentence, stands_at, kind))
        moments = [problem.stands_at for problem in problems]
        moments += [file.settles_at for _, file in every if not file.is_right]
        settles_at = min((moment for moment in moments if moment > now), default=None)
        # A folder that cannot be listed now is compared with what it held before.
        known = {**(self.versions or {}), **versions}
        return IndexState(known, files, jobs, problems, refusals, settles_at)

    def _assign_ids(self, files: FileStates) -> tuple[dict[JobKey, IndexedJob], list[FileProblem]]:
        """The job of each id, and the problems of ids that several files claim.

        Valid files claim an id; without one, files that have an earlier valid version.
        """
        claimed: dict[JobKey, list[FileState]] = {}
        for kind, own in files.items():
            for file in own.values():
                if file.job is not None:
                    claimed.setdefault(JobKey(kind, file.job.spec.id), []).append(file)
        jobs: dict[JobKey, IndexedJob] = {}
        doubles: list[FileProblem] = []
        for key, rivals in claimed.items():
            before, holder = self.jobs.get(key), rivals[0]
            if len(rivals) > 1:
                right = [file for file in rivals if file.is_right]
                rivals = right or rivals
                # The one that had the id before, also before a restart; else the first by name.
                same = [file for file in rivals if before is not None and file.path == before.path]
                known = [file.job for file in rivals if file.job is not None]
                holder = same[0] if same else rivals[holder_among(known, self.armed)]
                if len(right) > 1:
                    names = [file.shown for file in right]
                    sentence = str(DuplicateId(key.id, names, holder.shown))
                    stands_at = max(file.since for file in right) + SECONDS_TO_MEND
                    kind = JobKind(key.kind)
                    doubles.append(FileProblem(f"{kind} {key.id}", sentence, stands_at, kind))
            # The object from before if the job is unchanged, because identity compares fastest.
            is_same = before and before.job is holder.job and before.path is holder.path
            assert holder.job is not None
            jobs[key] = before if before and is_same else IndexedJob(holder.job, holder.path)
        return jobs, doubles


class SharedFiles:
    """The profile, the tasks, the policy, the skills, and the files of calendars."""

    def __init__(self, paths: DataPaths) -> None:
        self._paths = paths
        self._calendars: tuple[object, Sequence[Path]] = (None, ())
        self._known: Mapping[str, Stamp] | None = None

    def touched(self) -> Set[Path]:
        """The files written or removed since the last call; none at the first call."""
        paths, known = self._paths, self._known
        single = (paths.identity, paths.user, paths.tasks, paths.tool_policy)
        sources = sources_stamp(paths)
        # What says which files are read as calendars is read again when it has changed.
        if sources != self._calendars[0]:
            with suppress(StorageError):
                names = [each.file for each in CalendarFiles(paths).sources()]
                self._calendars = sources, [paths.root / name for name in names if name]
        found = stamps((*single, *paths.skills.glob("*/*.md"), *self._calendars[1]))
        self._known = found
        if known is None or known == found:
            return frozenset()
        return {Path(name) for name in {*known, *found} if known.get(name) != found.get(name)}


_MOST_TOLD_AT_ONCE = 5
# The share of one core that looks at unchanged files may use.
_MOST_OF_A_CORE = 0.002
_LONGEST_REST = 60.0


class ProblemNotices(Protocol):
    """The part of `Notices` that the index uses: a sentence is told once until it is forgotten."""

    async def tell(self, sentence: str, *, for_reminder: bool) -> object: ...

    async def forget(self, key: str) -> None:
        """`key` is the sentence."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The result of a look. `problems` are the sentences that were told.

    `look_again_in` is how many seconds later a look finds more even if no file changes. For `rest`
    seconds no look is needed while the system reports all changes.
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
    """Knows every job of the data directory. Call `refresh` whenever a file may have changed.

    A file that is wrong, or absent for a moment, leaves its last valid version in the index. A
    problem is told once it lasts, and again only when it has changed. `check_shared` is called, in
    a thread, at the first look and when other shared files have changed and stayed so for a moment.
    `days` are those of the answers by which routines have a next moment, by their ids.
    """

    def __init__(
        self,
        paths: DataPaths,
        clock: Clock,
        notices: ProblemNotices,
        hand_edits: ChangeJournal,
        disk: Disk | None = None,
        folders: JobFolders | None = None,
        *,
        check_shared: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._teller = notices
        self._check_shared = check_shared
        self._shared_changed_at: float | None = clock.monotonic() - SECONDS_TO_MEND
        self._hand_edits = hand_edits
        disk = disk or OsDisk()
        self._folders = folders or job_folders(paths, disk)
        self._copies = {
            kind: kept_versions(paths, folder.path, folder.form, disk)
            for kind, folder in self._folders.items()
        }
        # The last valid versions of files that are wrong now, by file name.
        self._kept: dict[JobKind, dict[str, Job]] = {}
        self._shared = SharedFiles(paths)
        self._state = IndexState()
        self._told: dict[str, str] = {}
        self.days: Mapping[str, date] = {}
        self._one_at_a_time = asyncio.Lock()

    @property
    def jobs(self) -> Mapping[JobKey, IndexedJob]:
        return self._state.jobs

    @property
    def problems(self) -> Sequence[str]:
        """All current problems, told or not."""
        return [problem.sentence for problem in self._state.problems]

    def remember(self, armed: Mapping[JobKey, str]) -> None:
        """To be called before the first look, with the marks of the armed jobs."""
        self._state = replace(self._state, armed=armed)

    async def refresh(self) -> Changes:
        async with self._one_at_a_time:
            now, before = self._clock.monotonic(), self.jobs
            self._state, waits, took = await asyncio.to_thread(self._looked, now)
            told = await self._tell(self._state.problems, now)
            after, look_again_in = self._state.jobs, min(waits, default=None)
            if before is after:
                return Changes((), (), (), told, look_again_in, rest_after(took))
            return Changes(
                [job for key, job in after.items() if key not in before],
                [
                    job
                    for key, job in after.items()
                    if key in before and job is not before[key] and job != before[key]
                ],
                [job for key, job in before.items() if key not in after],
                told,
                look_again_in,
                rest_after(took),
            )

    def _looked(self, now: float) -> tuple[IndexState, list[float], float]:
        """Look at the files now.

        Returns the state, the seconds until each further change, and the CPU seconds of a look that
        finds nothing new.
        """
        for kind in self._folders if not self._kept else ():
            self._kept[kind] = {}
            with refusal_logged(f"The last good {kind}s could not be read"):
                self._kept[kind] = self._copies[kind].all()
        before, began = self._state, time.thread_time()
        versions: dict[JobKind, Readings[Any]] = {}
        refused: dict[JobKind, str] = {}
        for kind, folder in self._folders.items():
            try:
                versions[kind] = folder.look()
            except Unreadable as refusal:
                refused[kind] = str(refusal)
        names, shared = before.touched(versions), self._shared.touched()
        took = 0.0 if any(names.values()) else time.thread_time() - began
        # The start of the bot has already noted all changes before the first look.
        if before.versions is not None:
            for kind, folder in self._folders.items():
                self._hand_edits.saw(folder.path / name for name in names.get(kind, ()))
            self._hand_edits.saw(shared)
        state = before.after(versions, refused, self._folders, self._kept, now)
        if state is not before:
            self._keep_last_good(state, now)
        waits = [] if state.settles_at is None else [state.settles_at - now]
        if (unseen := self._hand_edits.settle()) is not None:
            waits.append(unseen)
        # The shared files are checked once their writer has had time to end.
        changed_at = now if shared else self._shared_changed_at
        if changed_at is not None and changed_at + SECONDS_TO_MEND <= now:
            changed_at = None
            self._check_shared()
        elif changed_at is not None:
            waits.append(changed_at + SECONDS_TO_MEND - now)
        self._shared_changed_at = changed_at
        return state, waits, took

    def _keep_last_good(self, state: IndexState, now: float) -> None:
        """Keep copies of the last valid versions of files that stay wrong."""
        for kind in state.files.keys() - state.refusals.keys():
            kept, copies, files = self._kept[kind], self._copies[kind], state.files[kind]
            # The version stays in use all the same, but not beyond a restart.
            with refusal_logged(f"The last good {kind} could not be kept"):
                for name in [each for each in kept if each not in files or files[each].is_right]:
                    copies.drop(name)
                    del kept[name]
                for name, file in files.items():
                    is_wrong = not (file.is_right or file.is_away) and now >= file.settles_at
                    if is_wrong and file.job is not None and kept.get(name) != file.job:
                        copies.keep(name, file.job)
                        kept[name] = file.job

    async def _tell(self, problems: Sequence[FileProblem], now: float) -> Sequence[str]:
        there = {problem.key for problem in problems}
        for key in self._told.keys() - there:
            await self._teller.forget(self._told.pop(key))
        new = [m for m in problems if now >= m.stands_at and self._told.get(m.key) != m.sentence]
        for problem in new:
            if problem.key in self._told:
                await self._teller.forget(self._told[problem.key])
            self._told[problem.key] = problem.sentence
        sentences = [problem.sentence for problem in new]
        if (more := len(sentences) - _MOST_TOLD_AT_ONCE) > 0:
            # A folder full of wrong files must not cause a hundred notices.
            are, them = ("mistake is", "it") if more == 1 else ("mistakes are", "them")
            lists = list_names([f"`ollim-bot {kind} list`" for kind in JobKind], str, "and")
            rest = f"{more} more {are} in job files. {lists} show {them}."
            sentences = [*sentences[:_MOST_TOLD_AT_ONCE], rest]
        for_reminder = any(problem.kind is JobKind.REMINDER for problem in new)
        for sentence in sentences:
            await self._teller.tell(sentence, for_reminder=for_reminder)
        return sentences


def job_of(index: JobIndex, key: JobKey) -> Job | None:
    indexed = index.jobs.get(key)
    return None if indexed is None else with_plan(indexed.job, index.days.get(key.id))


def scheduled_jobs(index: JobIndex) -> Iterator[ScheduledJob]:
    """The jobs that come due by themselves."""
    for indexed in index.jobs.values():
        if isinstance(indexed.job, Routine | Reminder):
            yield with_plan(indexed.job, index.days.get(indexed.job.spec.id))


def rest_after(took: float) -> float:
    """How long the next look may wait, if a look without changes takes `took` CPU seconds."""
    return min(max(SCAN_SECONDS, took / _MOST_OF_A_CORE), _LONGEST_REST)


class AnswerPlans:
    """Keeps the plans of answers in step with the jobs, and the index with the plans."""

    def __init__(self, store: Store, index: JobIndex, clock: Clock) -> None:
        self._store = store
        self._index = index
        self._clock = clock
        self._changed = asyncio.Event()
        self._watches = ExitStack()
        self._jobs: list[Routine] = []
        self._has_followed = False

    def watch(self) -> None:
        """Notice answers, and ends without any, from now on."""
        self._watches.enter_context(self._store.changes("due_items", "ledger", event=self._changed))

    def close(self) -> None:
        self._watches.close()

    def note_jobs(self) -> None:
        """To be called when jobs have changed."""
        every = (indexed.job for indexed in self._index.jobs.values())
        self._jobs = [job for job in every if isinstance(job, Routine) and job.follows_answers]
        self._changed.set()

    async def follow(self, since: datetime, *, has_moved: bool = False) -> Changes:
        """Follow the jobs and the answers; the result has the jobs with another next moment."""
        is_used = bool(self._jobs or self._index.days or not self._has_followed)
        if not (is_used and (has_moved or self._changed.is_set())):
            return Changes()
        self._changed.clear()
        before, zone, jobs = self._index.days, zone_of(self._clock), self._jobs
        following = self._store.transact(
            lambda tx: follow_plans(tx, jobs, zone, since, has_moved=has_moved)
        )
        days = await unless_refused("What follows an answer could not be planned", following)
        if days is None:
            self._changed.set()
            return Changes()
        self._index.days, self._has_followed = days, True
        names = {name for name in before.keys() | days.keys() if before.get(name) != days.get(name)}
        found = (self._index.jobs.get(JobKey(JobKind.ROUTINE, name)) for name in sorted(names))
        planned = [
            replace(each, job=with_plan(each.job, days.get(each.job.spec.id)))
            for each in found
            if each is not None
        ]
        return Changes(changed=planned)
