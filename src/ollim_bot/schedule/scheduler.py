"""Waits for what is due, and starts it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

from ollim_bot.conversation.notices import Notices
from ollim_bot.domain.catch_up import (
    CatchUp,
    Missed,
    away_message,
    catch_up,
    is_late,
    late_since,
    verdict,
)
from ollim_bot.domain.definitions import Armed, Definition
from ollim_bot.domain.forward_schedule import UpcomingSchedule, build_upcoming_schedule
from ollim_bot.domain.jobs import Job, Late, Reminder, Routine
from ollim_bot.domain.occurrences import (
    LedgerRow,
    Occurrence,
    OccurrenceState,
    SkipReason,
    may_follow,
)
from ollim_bot.domain.run_history import STARTED, History, Recovery, RunStory, claiming_row
from ollim_bot.domain.schedule import (
    Agenda,
    JobKey,
    ScheduledJob,
    key_of,
    last_due,
    next_due,
    occurrence_at,
)
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.schedule import dispatch
from ollim_bot.schedule.dispatch import Dispatch, Work
from ollim_bot.schedule.job_index import Changes, JobBook
from ollim_bot.schedule.run_requests import RunRequests
from ollim_bot.schedule.watcher import SCAN_SECONDS, Watcher
from ollim_bot.store.heartbeat import HeartbeatFile
from ollim_bot.stores import Stores


class JobAgenda:
    """`zone` is for jobs without their own."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._agenda: Agenda[JobKey] = Agenda()

    @property
    def next_at(self) -> datetime | None:
        return self._agenda.next_at

    def due(self, now: datetime) -> list[tuple[JobKey, datetime]]:
        """All that is due by `now`, taken out."""
        return self._agenda.due(now)

    def remove(self, key: JobKey) -> None:
        self._agenda.remove(key)

    def catch_up(
        self, jobs: Iterable[ScheduledJob], since: datetime, now: datetime
    ) -> list[ScheduledJob]:
        """Put in what comes after `now`; gives those that were due between `since` and then.

        One look at each is enough for both.
        """
        missed = []
        for job in jobs:
            at = next_due(job, since, self._zone)
            if at is not None and at <= now:
                missed.append(job)
                self.put_next(job, now)
            elif at is not None:
                self._agenda.put(key_of(job), at)
        return missed

    def put_all(self, jobs: Iterable[ScheduledJob], now: datetime) -> None:
        """What comes after `now`; reminders of before are somebody else's."""
        for job in jobs:
            if isinstance(job, Routine) or job.due(self._zone).astimezone(UTC) > now:
                self.put(job, now)

    def put(self, job: Job, after: datetime) -> None:
        """A reminder of the past is due at once; whoever has claimed it has it."""
        if isinstance(job, Reminder) and job.spec.enabled:
            self._agenda.put(key_of(job), job.due(self._zone))
        else:
            self.put_next(job, after)

    def put_next(self, job: Job, after: datetime) -> None:
        """Only what comes again has one."""
        at = next_due(job, after, self._zone) if isinstance(job, Routine) else None
        if at is not None:
            self._agenda.put(key_of(job), at)
        else:
            self._agenda.remove(key_of(job))


# How long only what changes is written, before all jobs are compared with the ledger again.
_TRUSTED = timedelta(days=1)


class ArmedJobs:
    """`since` is the moment up to which all that was due has been claimed. For a thread."""

    def __init__(self, stores: Stores, zone: tzinfo) -> None:
        self._stores = stores
        self._zone = zone
        self._armed: Armed | None = None
        self._compared_at: datetime | None = None

    def write_all(self, jobs: Iterable[Job], now: datetime, since: datetime) -> None:
        """Let the ledger say that `jobs` are armed, and no others."""
        armed = self._armed or self._stores.armed_jobs()
        self._write(armed, armed, jobs, now, since)
        self._compared_at = now

    def write(self, changes: Changes, jobs: Iterable[Job], now: datetime, since: datetime) -> None:
        """The same, where nothing but `changes` is new since it was last written."""
        armed, compared = self._armed, self._compared_at
        if armed is None or compared is None or not compared <= now < compared + _TRUSTED:
            self.write_all(jobs, now, since)
            return
        booked = (*changes.added, *changes.changed, *changes.removed)
        known = {key: armed.jobs[key] for one in booked if (key := one.key) in armed.jobs}
        new = [one.job for one in (*changes.added, *changes.changed)]
        self._write(armed, Armed(known, now), new, now, since)

    def _write(
        self, armed: Armed, concerned: Armed, jobs: Iterable[Job], now: datetime, since: datetime
    ) -> None:
        definitions = [Definition.of(job, self._zone) for job in jobs]
        rows = concerned.rows_for(definitions, now, since)
        # Nobody knows what it says if the writing fails.
        self._armed = None
        if rows:
            self._stores.ledger.append(*rows)
        self._armed = armed.followed_by(rows)


async def tell_missed(
    missed: Sequence[Missed], since: datetime, stores: Stores, notices: Notices, now: datetime
) -> None:
    """To be done before the ledger says that they were missed, so that no crash comes between.

    `since` is the last heartbeat. It is the same at each start until all is written down, and the
    key says how far the telling has come. Raises `StorageError` where there is no room for it.
    """
    if not missed:
        return
    rows = await asyncio.to_thread(stores.ledger.read, since)
    # After a clock that was set back, some of it was told before.
    claimed = {row.occurrence for row in rows.entries}
    key = f"away {since.isoformat()} until "
    told = [datetime.fromisoformat(one.removeprefix(key)) for one in await notices.known(key)]
    until = max(told, default=since)
    if news := [one for one in missed if one.newest > until and one.occurrence not in claimed]:
        until = max(one.newest for one in news).astimezone(UTC)
        refused = await notices.tell(away_message(news, now), key=f"{key}{until.isoformat()}")
        if refused is not None:
            raise refused


def ended_rows(plan: CatchUp, now: datetime) -> list[LedgerRow]:
    """Those that end at once, from their first row to their last."""
    rows: list[LedgerRow] = []
    for missed in (*plan.tell, *plan.skip):
        rows += _ended(missed.job, missed.newest, now, OccurrenceState.MISSED, {})
    reason = {"reason": SkipReason.SUPERSEDED.value}
    for missed in (*plan.run, *plan.tell, *plan.skip):
        for moment in missed.older:
            rows += _ended(missed.job, moment, now, OccurrenceState.SKIPPED, reason)
    return rows


def _ended(
    job: ScheduledJob,
    moment: datetime,
    now: datetime,
    state: OccurrenceState,
    facts: Mapping[str, object],
) -> list[LedgerRow]:
    occurrence = occurrence_at(job, moment)
    named = {"job": job.spec.title, **dispatch.NOT_RUN}
    end = LedgerRow(now, state.value, occurrence, {**named, **facts})
    return [claiming_row(occurrence, now), end]


_BETWEEN_BEATS = timedelta(seconds=30)
_BETWEEN_CHECKPOINTS = timedelta(hours=1)

_logger = logging.getLogger(__name__)


class Heartbeat:
    """The schedule goes on, whether it can be written or not."""

    def __init__(self, stores: Stores, file: HeartbeatFile) -> None:
        self._stores = stores
        self._file = file
        self._beat_at: datetime | None = None
        self._checkpoint_at: datetime | None = None

    async def last(self) -> datetime | None:
        """Of an earlier life."""
        return await asyncio.to_thread(self._file.read)

    async def start(self, now: datetime) -> None:
        await kept("The start", lambda: self._stores.ledger.append(LedgerRow(now, STARTED)))

    async def beat(self, now: datetime) -> None:
        """All that was due until `now` is claimed. Cheap to say often."""
        last = self._beat_at
        if last is not None and last <= now < last + _BETWEEN_BEATS:
            return
        self._beat_at = now

        await kept("The heartbeat", lambda: self._file.write(now))
        if self._checkpoint_at is None or now - self._checkpoint_at > _BETWEEN_CHECKPOINTS:
            await self.checkpoint(now, now)

    async def checkpoint(self, now: datetime, watched_until: datetime) -> None:
        """So that the next start need not read far back."""
        self._checkpoint_at = now
        await kept("A checkpoint", lambda: self._stores.keep_checkpoint(now, watched_until))


async def kept(what: str, write: Callable[[], None]) -> None:
    """In a thread; a disk that refuses is no reason to stand still."""
    try:
        await asyncio.to_thread(write)
    except StorageError:
        _logger.warning("%s could not be written down", what, exc_info=True)


class Outlook:
    def __init__(self, book: JobBook, clock: Clock, zone: tzinfo, root: Path) -> None:
        self._book = book
        self._clock = clock
        self._zone = zone
        self._root = root

    def __call__(self, current: Occurrence) -> UpcomingSchedule:
        """Takes a while with very many jobs: for a thread."""
        booked = [*self._book.jobs.values()]
        jobs = [one.job for one in booked if isinstance(one.job, Routine | Reminder)]
        paths = {key_of(one.job): str(one.path.relative_to(self._root)) for one in booked}
        return build_upcoming_schedule(jobs, self._clock.now(), current, self._zone, paths)


class Unfinished:
    def __init__(
        self, stores: Stores, dispatch: Dispatch, notices: Notices, clock: Clock, zone: tzinfo
    ) -> None:
        self._stores = stores
        self._dispatch = dispatch
        self._notices = notices
        self._clock = clock
        self._zone = zone

    async def abandon(self, story: RunStory) -> None:
        """Its file is gone, so nobody wants it any more."""
        is_begun = may_follow(story.state, OccurrenceState.INTERRUPTED)
        state = OccurrenceState.INTERRUPTED if is_begun else OccurrenceState.SKIPPED
        facts = {"reason": SkipReason.DISABLED.value, "silent_because": "its file is gone"}
        await self._append(story, (state, facts))

    async def has_ended(
        self, work: Work, story: RunStory, history: History, watched_until: datetime
    ) -> bool:
        """Whether it gives way to a newer moment of its routine, or comes too late to be begun.

        What was due after `watched_until` is about to be caught up with. False if it goes on, as it
        also does where there is no room for its end on the disk.
        """
        job, due, now = work.job, work.occurrence.scheduled_at, self._clock.now()
        is_to_be_begun = story.recovery in (Recovery.RUN, Recovery.TRY_AGAIN)
        if not isinstance(job, Routine) or due is None or not is_to_be_begun:
            return False
        if work.occurrence.manual or await self._dispatch.has_plans_for(work):
            return False
        newest = last_due(job, now, self._zone)
        is_newer = newest is not None and newest > max(due, watched_until)
        try:
            if newest and is_newer and occurrence_at(job, newest) not in history.stories:
                await self._supersede(job, story)
                return True
            late = verdict(job, due, now, self._zone)
            if story.recovery is Recovery.RUN and late is not Late.RUN:
                return await self._is_missed(Missed(job, due), story, late)
        except StorageError:
            pass
        return False

    async def _supersede(self, job: Routine, story: RunStory) -> None:
        reason = {"reason": SkipReason.SUPERSEDED.value, "job": job.spec.title}
        skipped = (OccurrenceState.SKIPPED, {**reason, **dispatch.NOT_RUN})
        is_cut = story.state is OccurrenceState.RUNNING
        await self._append(story, *([(OccurrenceState.CUT_OFF, {})] if is_cut else []), skipped)

    async def _is_missed(self, missed: Missed, story: RunStory, late: Late) -> bool:
        """Told before the ledger says so, so that no crash comes between."""
        if late is Late.TELL:
            sentence = away_message([missed], self._clock.now())
            if await self._notices.tell(sentence, key=f"missed {story.occurrence.id}"):
                return False
        facts = {"job": missed.job.spec.title, **dispatch.NOT_RUN}
        await self._append(story, (OccurrenceState.MISSED, facts))
        return True

    async def _append(
        self, story: RunStory, *ends: tuple[OccurrenceState, Mapping[str, object]]
    ) -> None:
        now = self._clock.now()
        rows = [LedgerRow(now, state.value, story.occurrence, facts) for state, facts in ends]
        await asyncio.to_thread(self._stores.ledger.append, *rows)


# No sleep is longer, so that a file that nobody told of, a clock that was set, or a machine that
# slept, is noticed.
_LONGEST_SLEEP = SCAN_SECONDS
# Who has not looked for so long was asleep: what was due meanwhile is caught up with.
_ASLEEP = timedelta(seconds=90)
_BETWEEN_LATE_RUNS = 5.0
_BETWEEN_TRIES = 5.0
_SHORTEST_SLEEP = 0.001


class Scheduler:
    """All that was due until `_watched_until` has been claimed.

    Moments are in UTC here: two moments of one zone are compared as its clocks show them, also in
    the hour that the clocks show twice.
    """

    def __init__(
        self,
        stores: Stores,
        book: JobBook,
        watcher: Watcher,
        dispatch: Dispatch,
        notices: Notices,
        clock: Clock,
        zone: tzinfo,
        heartbeat: HeartbeatFile,
        requests: RunRequests | None = None,
    ) -> None:
        self._stores = stores
        self._book = book
        self._watcher = watcher
        self._dispatch = dispatch
        self._notices = notices
        self._clock = clock
        self._zone = zone
        self._requests = requests
        self._armed = ArmedJobs(stores, zone)
        self._agenda = JobAgenda(zone)
        self._unfinished = Unfinished(stores, dispatch, notices, clock, zone)
        self._watched_until = _utc(clock.now())
        self._heartbeat = Heartbeat(stores, heartbeat)
        self._look_at = clock.monotonic() + _LONGEST_SLEEP
        self._looked_at: float | None = None
        self._late: set[asyncio.Task[None]] = set()
        self._claiming: list[asyncio.Event] = []

    def run_now(self, job: Job) -> bool:
        """Begin a run by hand; False if one of that job goes on already."""
        return self._dispatch.run_now(job)

    @property
    def heartbeat_age(self) -> float | None:
        """How many seconds ago it last looked at the clock; None before it has."""
        looked_at = self._looked_at
        return None if looked_at is None else self._clock.monotonic() - looked_at

    async def run(self) -> None:
        """Until cancelled. The schedule waits for nobody: not for surfaces, not for the network."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watcher.run())
            await self._start()
            if self._requests is not None:
                group.create_task(self._requests.run())
            while True:
                is_calm = await self._watcher.wait(self._pause())
                if not (is_calm and self._may_rest()):
                    await self._look()
                await self._tick()

    async def close(self) -> None:
        """After `run` has ended, and the runs have: what is left is gone on with at a start."""
        for task in self._late:
            task.cancel()
        await self._dispatch.close()
        if self._looked_at is not None:
            await self._heartbeat.checkpoint(self._watched_until, self._watched_until)

    async def _start(self) -> None:
        """What the last stop left is gone on with, and what was missed is caught up with."""
        await self._book.refresh()
        now = self._now
        last = await self._heartbeat.last()
        self._watched_until = min(_utc(last or now), now)
        if last is None:
            # Before anything is armed, so that a crash leaves nothing armed without a beginning.
            await self._beat(now)
        await self._heartbeat.start(now)
        await self._write_armed(now)
        history = await asyncio.to_thread(self._stores.recent_history)
        for story in history.unfinished:
            # One whose beginning was not read has ended: what has no end is read from its claim on.
            if story.rows[0].state == OccurrenceState.DUE:
                await self._go_on(story, history, now)
        await self._catch_up(now)
        self._looked_at = self._clock.monotonic()
        await self._heartbeat.checkpoint(now, now)
        await self._beat(now)

    async def _go_on(self, story: RunStory, history: History, now: datetime) -> None:
        occurrence = story.occurrence
        job = self._job(JobKey(occurrence.kind, occurrence.job_id))
        if job is None:
            with suppress(StorageError):
                await self._unfinished.abandon(story)
            return
        work = Work(job, occurrence, late_since(occurrence, now))
        if not await self._unfinished.has_ended(work, story, history, self._watched_until):
            self._dispatch.go_on(work, story)

    async def _look(self) -> None:
        changes = await self._book.refresh()
        self._look_at = self._clock.monotonic() + changes.next_look_in
        if not changes:
            return
        now = self._now
        await self._write_armed(now, changes)
        for gone in changes.removed:
            self._agenda.remove(gone.key)
        for booked in (*changes.added, *changes.changed):
            # Not after now: a moment in between would be nobody's.
            self._agenda.put(booked.job, self._watched_until)

    async def _tick(self) -> None:
        now = self._now
        if now < self._watched_until:
            # The clock was set back. What was claimed stays claimed.
            self._watched_until = now
            await self._heartbeat.checkpoint(now, now)
            self._agenda.put_all(self._scheduled(), now)
        elif now - self._watched_until > _ASLEEP:
            await self._catch_up(now)
        for key, at in self._agenda.due(now):
            job = self._job(key)
            if job is not None:
                self._fire(self._work(job, at, now))
                self._agenda.put_next(job, at)
        self._watched_until = now
        self._looked_at = self._clock.monotonic()
        await self._beat(now)

    async def _catch_up(self, now: datetime) -> None:
        """Arm all that is to come. Of what was missed, late runs begin one by one, and what is only
        told is told in one message."""
        plan, claimed = await asyncio.to_thread(self._caught_up, now)
        for reminder in self._overdue():
            self._fire(self._work(reminder, reminder.due(self._zone), now))
        since, self._watched_until = self._watched_until, now
        for missed in plan.run:
            if missed.occurrence not in claimed:
                self._fire(self._work(missed.job, missed.newest, now))
        runs = [missed for missed in plan.run if missed.occurrence in claimed]
        self._do_later(self._run_late(runs, now))
        await self._end_missed(plan, since)

    async def _end_missed(self, plan: CatchUp, since: datetime) -> None:
        """What is not run is told, then written down; on a full disk, as soon as there is room."""
        rows, now = ended_rows(plan, self._now), self._clock.now()
        try:
            await tell_missed(plan.tell, since, self._stores, self._notices, now)
            await asyncio.to_thread(self._stores.claims.claim_all, rows)
        except StorageError:
            self._do_later(self._end_missed_later(plan, since))
            return
        for missed in (*plan.tell, *plan.skip):
            if isinstance(missed.job, Reminder):
                await self._dispatch.put_away(missed.job)

    async def _end_missed_later(self, plan: CatchUp, since: datetime) -> None:
        written = asyncio.Event()
        self._claiming.append(written)
        await self._clock.sleep(_BETWEEN_TRIES)
        await self._end_missed(plan, since)
        written.set()

    def _fire(self, work: Work) -> None:
        self._claiming.append(self._dispatch.fire(work))

    def _caught_up(self, now: datetime) -> tuple[CatchUp, Set[Occurrence]]:
        """The plan, and which of those to run are claimed now: on a full disk, none."""
        due = self._agenda.catch_up(self._scheduled(), self._watched_until, now)
        plan = catch_up(due, self._watched_until, now, self._zone)
        plan = plan.handing_on(self._dispatch.skipped_moments().has)
        begun = [claiming_row(one.occurrence, now, one.facts) for one in plan.run]
        try:
            return plan, self._stores.claims.claim_all(begun)
        except StorageError:
            return plan, frozenset()

    def _do_later(self, work: Coroutine[None, None, None]) -> None:
        going = {task for task in self._late if not task.done()}
        self._late = going | {asyncio.create_task(work)}

    async def _run_late(self, missed: Iterable[Missed], now: datetime) -> None:
        """They are claimed; what is on time begins at once."""
        for each in sorted(missed, key=lambda one: one.late_since(now) is not None):
            self._dispatch.begin(self._work(each.job, each.newest, now))
            if each.late_since(now) is not None:
                await self._clock.sleep(_BETWEEN_LATE_RUNS)

    def _work(self, job: Job, at: datetime, now: datetime) -> Work:
        return Work(job, occurrence_at(job, at), at if is_late(at, now) else None)

    def _overdue(self) -> Iterator[Reminder]:
        """Reminders of moments that were watched, which are still there.

        Somebody has made one with a moment of the past, or a crash has kept its file from going.
        """
        for job in self._scheduled():
            if isinstance(job, Reminder) and last_due(job, self._watched_until, self._zone):
                yield job

    async def _write_armed(self, now: datetime, changes: Changes | None = None) -> None:
        jobs = (one.job for one in self._book.jobs.values())

        def write() -> None:
            if changes is None:
                self._armed.write_all(jobs, now, self._watched_until)
            else:
                self._armed.write(changes, jobs, now, self._watched_until)

        await kept("The list of jobs", write)

    async def _beat(self, now: datetime) -> None:
        """Said only when all that was due until then is claimed."""
        self._claiming = [claim for claim in self._claiming if not claim.is_set()]
        if not self._claiming:
            await self._heartbeat.beat(now)

    @property
    def _now(self) -> datetime:
        return _utc(self._clock.now())

    def _may_rest(self) -> bool:
        """Not if something is due: whether it still stands in its file has to be seen first."""
        next_at = self._agenda.next_at
        return self._clock.monotonic() < self._look_at and (next_at is None or next_at > self._now)

    def _pause(self) -> float:
        now = self._now
        next_at = self._agenda.next_at
        waits = [_LONGEST_SLEEP, self._look_at - self._clock.monotonic()]
        if next_at is not None:
            waits.append((next_at - now).total_seconds())
        return max(min(waits), _SHORTEST_SLEEP)

    def _scheduled(self) -> Iterator[ScheduledJob]:
        for booked in self._book.jobs.values():
            if isinstance(booked.job, Routine | Reminder):
                yield booked.job

    def _job(self, key: JobKey) -> Job | None:
        booked = self._book.jobs.get(key)
        return None if booked is None else booked.job


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)
