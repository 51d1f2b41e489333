"""Claims the due occurrences of jobs, and catches up on those that were missed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Set
from datetime import UTC, datetime, tzinfo

from ollim_bot.conversation.disk_gate import DiskGate
from ollim_bot.domain.catch_up import CatchUp, Missed, catch_up
from ollim_bot.domain.decision import BETWEEN_LATE_RUNS
from ollim_bot.domain.jobs import Job, Reminder, Routine
from ollim_bot.domain.lateness import ASLEEP, is_late, late_since
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
from ollim_bot.schedule.job_index import Changes, JobIndex, job_of, scheduled_jobs
from ollim_bot.store.job_files import JobFileChanges
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


class DueJobs:
    """Has the dispatcher claim each due occurrence of a job once."""

    def __init__(
        self,
        store: Store,
        index: JobIndex,
        dispatch: Dispatcher,
        gate: DiskGate,
        files: JobFileChanges,
        clock: Clock,
        zone: tzinfo,
    ) -> None:
        self._store = store
        self._index = index
        self._dispatch = dispatch
        self._gate = gate
        self._files = files
        self._clock = clock
        self._zone = zone
        self._agenda = JobAgenda(zone)
        self._unfinished = UnfinishedRuns(store, dispatch, clock, zone)
        self._is_planned = False
        self._late: set[asyncio.Task[None]] = set()
        self._claiming: list[asyncio.Event] = []

    @property
    def next_at(self) -> datetime | None:
        return self._agenda.next_at

    @property
    def is_behind(self) -> bool:
        self._claiming = [claim for claim in self._claiming if not claim.is_set()]
        return bool(self._claiming)

    async def start(self, since: datetime, now: datetime) -> None:
        """End or resume the occurrences that have begun without an end.

        The calls of webhooks are left to `WebhookRuns`.
        """
        history = await self._store.read(lambda tx: tx.ledger.open_history())
        for story in history.begun:
            one = story.occurrence
            if one.is_call:
                continue
            job = job_of(self._index, JobKey(one.kind, one.job_id))
            await self._unfinished.recover(job, story, since)
        for story in history.owed:
            one = story.occurrence
            job = job_of(self._index, JobKey(one.kind, one.job_id))
            if job is not None:
                self._dispatch.resume(DueOccurrence(job, one, late_since(one, now)), story)

    async def serve_due(self, since: datetime, now: datetime) -> None:
        if not self._is_planned or now - since > ASLEEP:
            await self._catch_up(since, now)
        for key, at in self._agenda.due(now):
            job = job_of(self._index, key)
            if job is not None:
                self._claim(_due(job, at, now))
                self._agenda.put_next(job, at)

    def follow_changes(self, changes: Changes, since: datetime) -> None:
        for gone in changes.removed:
            self._agenda.remove(gone.key)
        for indexed in (*changes.added, *changes.changed):
            self._agenda.put(indexed.job, since)

    async def follow_clock(self, now: datetime) -> None:
        """Claimed occurrences stay claimed."""
        self._agenda.put_all(scheduled_jobs(self._index), now)

    async def close(self) -> None:
        for task in self._late:
            task.cancel()
        await self._dispatch.close()

    async def _catch_up(self, since: datetime, now: datetime) -> None:
        """Plan all jobs, start late runs one by one, and tell the rest in one message."""
        plan, claimed = await self._caught_up(since, now)
        self._is_planned = True
        for reminder in self._overdue(since):
            self._claim(_due(reminder, reminder.due(self._zone), now))
        for missed in plan.run:
            if missed.occurrence not in claimed:
                self._claim(_due(missed.job, missed.newest, now))
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

    async def _caught_up(self, since: datetime, now: datetime) -> tuple[CatchUp, Set[Occurrence]]:
        """The plan, and the occurrences that were claimed for it; none on a full disk."""
        skips = await SkipWishes(self._store).read()
        plan = await asyncio.to_thread(self._plan, skips, since, now)
        begun = [claiming_row(one.occurrence, now, one.facts) for one in plan.run]
        try:
            return plan, await self._store.transact(lambda tx: tx.ledger.claim_all(begun))
        except StorageError:
            return plan, frozenset()

    def _plan(self, skips: Skips, since: datetime, now: datetime) -> CatchUp:
        due = self._agenda.catch_up(scheduled_jobs(self._index), since, now)
        return catch_up(due, since, now, self._zone, skips.has)

    def _do_later(self, work: Coroutine[None, None, None]) -> None:
        going = {task for task in self._late if not task.done()}
        self._late = going | {asyncio.create_task(work)}

    async def _run_late(self, missed: Iterable[Missed], now: datetime) -> None:
        """Start claimed occurrences: those on time at once, the late ones one after another."""
        for each in sorted(missed, key=lambda one: one.late_since(now) is not None):
            self._dispatch.start_claimed(_due(each.job, each.newest, now))
            if each.late_since(now) is not None:
                await self._clock.sleep(BETWEEN_LATE_RUNS.total_seconds())

    def _overdue(self, since: datetime) -> Iterator[Reminder]:
        """Reminders due before `since` whose files still exist.

        Such a file was written with a past moment, or a crash prevented its removal.
        """
        for job in scheduled_jobs(self._index):
            if isinstance(job, Reminder) and last_due(job, since, self._zone):
                yield job


def _due(job: Job, at: datetime, now: datetime) -> DueOccurrence:
    return DueOccurrence(job, occurrence_at(job, at), at if is_late(at, now) else None)


def _unclaimed(tx: Transaction, missed: Iterable[Missed]) -> list[Missed]:
    """The missed ones without a claim: after a set-back clock, some were told before."""
    return [one for one in missed if not tx.ledger.has(one.occurrence)]
