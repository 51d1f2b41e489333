"""Waits for due moments and hands them to the dispatcher."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Set
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

from ollim_bot.conversation.disk_gate import DiskGate
from ollim_bot.domain.catch_up import CatchUp, Missed, catch_up
from ollim_bot.domain.decision import BETWEEN_LATE_RUNS
from ollim_bot.domain.forward_schedule import UpcomingSchedule, build_upcoming_schedule
from ollim_bot.domain.jobs import Job, Reminder, Routine
from ollim_bot.domain.lateness import is_late, late_since
from ollim_bot.domain.notices import Notice
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.owner_choices import Skips
from ollim_bot.domain.run_history import claiming_row
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
from ollim_bot.schedule.catch_up import UnfinishedRuns, away_notice, end_missed
from ollim_bot.schedule.circumstances import DueOccurrence, SkipWishes
from ollim_bot.schedule.dispatch import Dispatcher
from ollim_bot.schedule.heads_ups import HeadsUps
from ollim_bot.schedule.job_index import Changes, JobIndex
from ollim_bot.schedule.ledger_records import ArmedJobs, Heartbeat, kept
from ollim_bot.schedule.nags import Nags
from ollim_bot.schedule.run_requests import RunRequests
from ollim_bot.schedule.watcher import SCAN_SECONDS, Watcher
from ollim_bot.store.heartbeat import HeartbeatFile
from ollim_bot.store.job_files import JobFileChanges
from ollim_bot.store.steps import armed_marks
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction


class JobAgenda:
    """The next moment of every job; `zone` is for jobs without a time zone of their own."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._agenda: Agenda[JobKey] = Agenda()

    @property
    def next_at(self) -> datetime | None:
        return self._agenda.next_at

    def due(self, now: datetime) -> list[tuple[JobKey, datetime]]:
        """Remove and return everything due by `now`."""
        return self._agenda.due(now)

    def remove(self, key: JobKey) -> None:
        self._agenda.remove(key)

    def catch_up(
        self, jobs: Iterable[ScheduledJob], since: datetime, now: datetime
    ) -> list[ScheduledJob]:
        """Schedule the next moments after `now`. Returns the jobs that were due since `since`."""
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
        """Schedule the next moments after `now`. Earlier reminders are left to the catch-up."""
        for job in jobs:
            if isinstance(job, Routine) or job.due(self._zone).astimezone(UTC) > now:
                self.put(job, now)

    def put(self, job: Job, after: datetime) -> None:
        """Schedule the job. An overdue reminder is due at once; its claim prevents a second run."""
        if isinstance(job, Reminder) and job.spec.enabled:
            self._agenda.put(key_of(job), job.due(self._zone))
        else:
            self.put_next(job, after)

    def put_next(self, job: Job, after: datetime) -> None:
        """Schedule the next moment of a routine; a reminder has none."""
        at = next_due(job, after, self._zone) if isinstance(job, Routine) else None
        if at is not None:
            self._agenda.put(key_of(job), at)
        else:
            self._agenda.remove(key_of(job))


class UpcomingReader:
    def __init__(self, index: JobIndex, clock: Clock, zone: tzinfo, root: Path) -> None:
        self._index = index
        self._clock = clock
        self._zone = zone
        self._root = root

    def __call__(self, current: Occurrence) -> UpcomingSchedule:
        """The schedule around `current`. Slow with very many jobs: call it in a thread."""
        indexed = [*self._index.jobs.values()]
        jobs = [one.job for one in indexed if isinstance(one.job, Routine | Reminder)]
        paths = {key_of(one.job): str(one.path.relative_to(self._root)) for one in indexed}
        return build_upcoming_schedule(jobs, self._clock.now(), current, self._zone, paths)


# Bounds how late an unreported file change, a set clock, or a sleep of the machine is noticed.
_LONGEST_SLEEP = SCAN_SECONDS
# A longer gap between two looks means that the machine slept, and leads to a catch-up.
_ASLEEP = timedelta(seconds=90)
_SHORTEST_SLEEP = 0.001


class Scheduler:
    """Claims due occurrences; all that were due until `_watched_until` are claimed.

    Moments are in UTC, because Python compares moments of one zone by wall clock, which is wrong in
    the hour that occurs twice.
    """

    def __init__(
        self,
        store: Store,
        index: JobIndex,
        watcher: Watcher,
        dispatch: Dispatcher,
        gate: DiskGate,
        files: JobFileChanges,
        clock: Clock,
        zone: tzinfo,
        heartbeat: HeartbeatFile,
        requests: RunRequests,
        heads_ups: HeadsUps,
        nags: Nags,
    ) -> None:
        self._store = store
        self._index = index
        self._watcher = watcher
        self._dispatch = dispatch
        self._gate = gate
        self._files = files
        self._clock = clock
        self._zone = zone
        self._requests = requests
        self._heads_ups = heads_ups
        self._nags = nags
        self._armed = ArmedJobs(store, zone)
        self._agenda = JobAgenda(zone)
        self._unfinished = UnfinishedRuns(store, dispatch, clock, zone)
        self._watched_until = _utc(clock.now())
        self._heartbeat = Heartbeat(store, heartbeat)
        self._look_at = clock.monotonic() + _LONGEST_SLEEP
        self._looked_at: float | None = None
        self._late: set[asyncio.Task[None]] = set()
        self._claiming: list[asyncio.Event] = []

    @property
    def heartbeat_age(self) -> float | None:
        """Seconds since the scheduler last looked at the clock; None before the first look."""
        looked_at = self._looked_at
        return None if looked_at is None else self._clock.monotonic() - looked_at

    async def run(self) -> None:
        """Run until cancelled. The schedule waits for no surface and no network."""
        unsubscribe = self._nags.follow()
        try:
            await self._run()
        finally:
            unsubscribe()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watcher.run())
            await self._start()
            group.create_task(self._dispatch.serve_manual_runs())
            group.create_task(self._requests.run())
            while True:
                is_calm = await self._watcher.wait(self._pause())
                if not (is_calm and self._may_rest()):
                    await self._look()
                await self._tick()

    async def close(self) -> None:
        """Call after `run` and the background runs have ended. The next start resumes the rest."""
        for task in self._late:
            task.cancel()
        await self._dispatch.close()
        if self._looked_at is not None:
            await self._heartbeat.checkpoint(self._watched_until, self._watched_until)

    async def _start(self) -> None:
        """Resume what the last stop left unfinished, and catch up on what was missed."""
        await self._files.make()
        self._index.remember(await self._store.read(armed_marks))
        await self._index.refresh()
        now = self._now
        last = await self._heartbeat.last()
        self._watched_until = min(_utc(last or now), now)
        if last is None:
            # Beat before arming: after a crash, no job must be armed without a heartbeat.
            await self._beat(now)
        await self._heartbeat.start(now)
        await self._write_armed(now)
        history = await self._store.read(lambda tx: tx.ledger.open_history())
        for story in history.begun:
            one = story.occurrence
            job = self._job(JobKey(one.kind, one.job_id))
            await self._unfinished.recover(job, story, self._watched_until)
        for story in history.owed:
            one = story.occurrence
            job = self._job(JobKey(one.kind, one.job_id))
            if job is not None:
                self._dispatch.resume(DueOccurrence(job, one, late_since(one, now)), story)
        self._heads_ups.put_all(self._scheduled(), self._watched_until)
        await self._nags.show_due(now)
        await self._send_heads_ups(now)
        await self._catch_up(now)
        self._looked_at = self._clock.monotonic()
        await self._heartbeat.checkpoint(now, now)
        await self._beat(now)

    async def _look(self) -> None:
        changes = await self._index.refresh()
        self._look_at = self._clock.monotonic() + changes.next_look_in
        if not changes:
            return
        now = self._now
        await self._write_armed(now, changes)
        for gone in changes.removed:
            self._agenda.remove(gone.key)
            self._heads_ups.remove(gone.key)
        for booked in (*changes.added, *changes.changed):
            # Use the earlier moment: an occurrence between the two readings would be skipped.
            self._agenda.put(booked.job, self._watched_until)
            self._heads_ups.put(booked.job, self._watched_until)

    async def _tick(self) -> None:
        now = self._now
        if now < self._watched_until:
            # The clock was set back. Claimed occurrences stay claimed.
            self._watched_until = now
            await self._heartbeat.checkpoint(now, now)
            self._agenda.put_all(self._scheduled(), now)
            self._heads_ups.put_all(self._scheduled(), now)
            await self._nags.follow_clock(now)
        await self._nags.show_due(now)
        await self._send_heads_ups(now)
        if now - self._watched_until > _ASLEEP:
            await self._catch_up(now)
        for key, at in self._agenda.due(now):
            job = self._job(key)
            if job is not None:
                self._claim(self._due(job, at, now))
                self._agenda.put_next(job, at)
        self._watched_until = now
        self._looked_at = self._clock.monotonic()
        await self._beat(now)

    async def _send_heads_ups(self, now: datetime) -> None:
        for key, since in [*self._heads_ups.due(now)]:
            job = self._job(key)
            if isinstance(job, Routine | Reminder):
                await self._heads_ups.send(job, since, now)

    async def _catch_up(self, now: datetime) -> None:
        """Schedule all jobs, start late runs one by one, and tell the rest in one message."""
        plan, claimed = await self._caught_up(now)
        for reminder in self._overdue():
            self._claim(self._due(reminder, reminder.due(self._zone), now))
        self._watched_until = now
        for missed in plan.run:
            if missed.occurrence not in claimed:
                self._claim(self._due(missed.job, missed.newest, now))
        runs = [missed for missed in plan.run if missed.occurrence in claimed]
        self._do_later(self._run_late(runs, now))
        await self._end_missed(plan)

    async def _end_missed(self, plan: CatchUp) -> None:
        """Write the ends of occurrences that do not run, and tell them; on a full disk, later."""
        news = await self._store.read(lambda tx: _unclaimed(tx, plan.tell))
        away = away_notice(news, self._clock.now())
        try:
            await self._store.transact(lambda tx: end_missed(tx, plan, away))
        except StorageError:
            written = asyncio.Event()
            self._claiming.append(written)
            self._do_later(self._end_missed_later(plan, away, written))
        else:
            await self._files.make()

    async def _end_missed_later(
        self, plan: CatchUp, away: Notice | None, written: asyncio.Event
    ) -> None:
        await self._gate.commit(lambda tx: end_missed(tx, plan, away), notice=away)
        written.set()
        await self._files.make()

    def _claim(self, due: DueOccurrence) -> None:
        self._claiming.append(self._dispatch.claim_and_start(due))

    async def _caught_up(self, now: datetime) -> tuple[CatchUp, Set[Occurrence]]:
        """The plan, and the occurrences that were claimed for it; none on a full disk."""
        skips = await SkipWishes(self._store).read()
        plan = await asyncio.to_thread(self._plan, skips, now)
        begun = [claiming_row(one.occurrence, now, one.facts) for one in plan.run]
        try:
            return plan, await self._store.transact(lambda tx: tx.ledger.claim_all(begun))
        except StorageError:
            return plan, frozenset()

    def _plan(self, skips: Skips, now: datetime) -> CatchUp:
        due = self._agenda.catch_up(self._scheduled(), self._watched_until, now)
        return catch_up(due, self._watched_until, now, self._zone, skips.has)

    def _do_later(self, work: Coroutine[None, None, None]) -> None:
        going = {task for task in self._late if not task.done()}
        self._late = going | {asyncio.create_task(work)}

    async def _run_late(self, missed: Iterable[Missed], now: datetime) -> None:
        """Start claimed occurrences: those on time at once, the late ones one after another."""
        for each in sorted(missed, key=lambda one: one.late_since(now) is not None):
            self._dispatch.start_claimed(self._due(each.job, each.newest, now))
            if each.late_since(now) is not None:
                await self._clock.sleep(BETWEEN_LATE_RUNS.total_seconds())

    def _due(self, job: Job, at: datetime, now: datetime) -> DueOccurrence:
        return DueOccurrence(job, occurrence_at(job, at), at if is_late(at, now) else None)

    def _overdue(self) -> Iterator[Reminder]:
        """Reminders due before `_watched_until` whose files still exist.

        Such a file was written with a past moment, or a crash prevented its removal.
        """
        for job in self._scheduled():
            if isinstance(job, Reminder) and last_due(job, self._watched_until, self._zone):
                yield job

    async def _write_armed(self, now: datetime, changes: Changes | None = None) -> None:
        jobs = (one.job for one in self._index.jobs.values())
        since = self._watched_until
        if changes is None:
            await kept("The list of jobs", self._armed.write_all(jobs, now, since))
        else:
            await kept("The list of jobs", self._armed.write(changes, jobs, now, since))

    async def _beat(self, now: datetime) -> None:
        """Write the heartbeat, if everything due until `now` is claimed."""
        self._claiming = [claim for claim in self._claiming if not claim.is_set()]
        if not (self._claiming or self._heads_ups.is_behind):
            await self._heartbeat.beat(now)

    @property
    def _now(self) -> datetime:
        return _utc(self._clock.now())

    def _may_rest(self) -> bool:
        """Whether no look at the files is needed.

        A due job's file is read again before its start.
        """
        next_at = self._next_at
        return self._clock.monotonic() < self._look_at and (next_at is None or next_at > self._now)

    @property
    def _next_at(self) -> datetime | None:
        found = (self._agenda.next_at, self._heads_ups.next_at, self._nags.next_at)
        return min((at for at in found if at is not None), default=None)

    def _pause(self) -> float:
        now, next_at = self._now, self._next_at
        waits = [_LONGEST_SLEEP, self._look_at - self._clock.monotonic()]
        if next_at is not None:
            waits.append((next_at - now).total_seconds())
        return max(min(waits), _SHORTEST_SLEEP)

    def _scheduled(self) -> Iterator[ScheduledJob]:
        for booked in self._index.jobs.values():
            if isinstance(booked.job, Routine | Reminder):
                yield booked.job

    def _job(self, key: JobKey) -> Job | None:
        booked = self._index.jobs.get(key)
        return None if booked is None else booked.job


def _unclaimed(tx: Transaction, missed: Iterable[Missed]) -> list[Missed]:
    """The missed ones without a claim: after a set-back clock, some were told before."""
    return [one for one in missed if not tx.ledger.has(one.occurrence)]


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)
