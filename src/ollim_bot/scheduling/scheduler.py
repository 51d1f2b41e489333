"""Time becomes work: watches the job files and the clock, and hands on what is due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Iterator, Set
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo

from ollim_bot.conversation.notices import Notices
from ollim_bot.domain.catch_up import CatchUp, Missed, catch_up, is_late, late_since
from ollim_bot.domain.jobs import Job, Reminder, Routine
from ollim_bot.domain.occurrences import Occurrence, OccurrenceState
from ollim_bot.domain.run_history import History, RunStory, claiming_row
from ollim_bot.domain.schedule import JobKey, ScheduledJob, last_due, occurrence_at
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.scheduling.agenda import JobAgenda
from ollim_bot.scheduling.armed import ArmedJobs
from ollim_bot.scheduling.away import tell_missed
from ollim_bot.scheduling.dispatch import Dispatch
from ollim_bot.scheduling.ended_rows import ended_rows
from ollim_bot.scheduling.heartbeat import Heartbeat, kept
from ollim_bot.scheduling.job_book import Changes, JobBook
from ollim_bot.scheduling.requests import RunRequests
from ollim_bot.scheduling.skips import Skips
from ollim_bot.scheduling.unfinished import Unfinished
from ollim_bot.scheduling.watcher import SCAN_SECONDS, Watcher
from ollim_bot.scheduling.work import Work
from ollim_bot.stores import Stores

# No sleep is longer, so that a file that nobody told of, a clock that was set, or a machine that
# slept, is noticed.
_LONGEST_SLEEP = SCAN_SECONDS
# Who has not looked for so long was asleep: what was due meanwhile is caught up with.
_ASLEEP = timedelta(seconds=90)
_BETWEEN_LATE_RUNS = 5.0
_BETWEEN_TRIES = 5.0
_SHORTEST_SLEEP = 0.001

_logger = logging.getLogger(__name__)


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
        self._heartbeat = Heartbeat(stores)
        self._look_at = clock.monotonic() + _LONGEST_SLEEP
        self._looked_at: float | None = None
        self._late: set[asyncio.Task[None]] = set()
        self._claiming: list[asyncio.Event] = []

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
        plan = plan.handing_on(Skips(self._stores).read().is_skipped)
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
