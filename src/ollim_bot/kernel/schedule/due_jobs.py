"""Claims the due occurrences of jobs, and catches up on those that were missed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Set
from datetime import UTC, datetime, timedelta
from functools import partial

from ollim_bot.kernel.base.clock import Clock, wait_until_set, zone_of
from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.changes.job_files import JobFileChanges
from ollim_bot.kernel.conversation.notice_poster import DiskGate
from ollim_bot.kernel.schedule.catch_up import (
    UnfinishedRuns,
    end_missed,
    heads_up_rows,
    notice_of,
    owed_rows,
    passed_over,
)
from ollim_bot.kernel.schedule.dispatch import Dispatcher, DueOccurrence
from ollim_bot.kernel.schedule.job_index import Changes, JobIndex, job_of, scheduled_jobs
from ollim_bot.kernel.schedule.ledger_records import move_skips
from ollim_bot.kernel.schedule.scheduler import DueSource
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.answer_plans import plan_just_passed
from ollim_bot.kernel.values.catch_up_decision import (
    JUMPED_OVER,
    WHILE_AWAY,
    CatchUp,
    Missed,
    away_message,
    catch_up,
    passed_over_message,
)
from ollim_bot.kernel.values.decision import BETWEEN_LATE_RUNS
from ollim_bot.kernel.values.definitions import Definition
from ollim_bot.kernel.values.jobs import Job, Reminder, Routine
from ollim_bot.kernel.values.notices import Notice
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.presence import PassedOver
from ollim_bot.kernel.values.run_history import claiming_row
from ollim_bot.kernel.values.schedule import (
    ASLEEP,
    Agenda,
    ScheduledJob,
    Skips,
    is_late,
    key_of,
    last_due,
    late_since,
    next_due,
    occurrence_at,
)
from ollim_bot.kernel.values.travel import ZoneMove

# Two zones are at most 26 hours apart.
_LONGEST_JUMP = timedelta(hours=26)
_LONGEST_CLAIM = 5.0
# So many missed jobs end in one step: messages of the owner must not wait for ten thousand.
_ENDED_AT_ONCE = 100


class JobAgenda(Agenda[JobKey]):
    """The next moment of every job; a job without its own time zone has that of the clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def catch_up(
        self, jobs: Iterable[ScheduledJob], since: datetime, now: datetime
    ) -> list[ScheduledJob]:
        """Schedule the next moments after `now`. Returns the jobs that were due since `since`."""
        missed, zone = [], zone_of(self._clock)
        for job in jobs:
            at = next_due(job, since, zone)
            if at is not None and at <= now:
                missed.append(job)
                self.remove(key_of(job))
                if isinstance(job, Routine):
                    self.put_job(job, now)
            elif at is not None:
                self.put(key_of(job), at)
        return missed

    def put_all(self, jobs: Iterable[ScheduledJob], now: datetime) -> None:
        """Schedule the next moments after `now`. Earlier reminders are left to the catch-up."""
        zone = zone_of(self._clock)
        for job in jobs:
            if isinstance(job, Routine) or job.due(zone).astimezone(UTC) > now:
                self.put_job(job, now)

    def put_job(self, job: Job, after: datetime) -> None:
        """Schedule the job. An overdue reminder is due at once; its claim prevents a second run."""
        at = None
        if isinstance(job, Reminder) and job.spec.enabled:
            at = job.due(zone_of(self._clock))
        elif isinstance(job, Routine):
            at = next_due(job, after, zone_of(self._clock))
        if at is not None:
            self.put(key_of(job), at)
        else:
            self.remove(key_of(job))


class DueJobs(DueSource):
    """Has the dispatcher claim each due occurrence of a job once."""

    counts_from_heartbeat = True

    def __init__(
        self,
        store: Store,
        index: JobIndex,
        dispatch: Dispatcher,
        gate: DiskGate,
        files: JobFileChanges,
        clock: Clock,
    ) -> None:
        self._store = store
        self._index = index
        self._dispatch = dispatch
        self._gate = gate
        self._files = files
        self._clock = clock
        self._agenda = JobAgenda(clock)
        self._unfinished = UnfinishedRuns(store, dispatch, clock)
        self._is_planned = False
        self._came: dict[JobKey, datetime] = {}
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

        The calls of webhooks are left to `WebhookRuns`. What was due between a copy and the return
        to it is ended first.
        """
        await self._pass_over()
        history = await self._store.read(lambda tx: tx.ledger.open_history())
        await self._note_came(story.occurrence for story in (*history.begun, *history.owed))
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
                self._claim(job, at, now)
                if isinstance(job, Routine):
                    self._agenda.put_job(job, at)

    def follow_changes(self, changes: Changes, since: datetime) -> None:
        for gone in changes.removed:
            key = key_of(gone.job)
            self._agenda.remove(key)
            self._came.pop(key, None)
        for indexed in (*changes.added, *changes.changed):
            self._agenda.put_job(indexed.job, since)
        for job, at in self._overdue((each.job for each in changes.changed), since):
            self._agenda.put(key_of(job), at)

    async def follow_clock(self, now: datetime) -> None:
        """Claimed occurrences stay claimed."""
        self._agenda.put_all(scheduled_jobs(self._index), now)

    async def follow_zone(self, move: ZoneMove, now: datetime) -> None:
        """Plan by the new clock, and catch up on what it jumped over."""
        for claim in self._claiming:
            await wait_until_set(claim, self._clock, _LONGEST_CLAIM)
        jobs = [*scheduled_jobs(self._index)]
        for job in jobs:
            if isinstance(job, Reminder) and key_of(job) in move.came:
                self._came[key_of(job)] = job.due(move.before).astimezone(UTC)
                self._agenda.remove(key_of(job))
        moved = [job for job in jobs if move.moves(job)]
        self._agenda.put_all(moved, now)
        moving = self._store.transact(lambda tx: move_skips(tx, moved, move, now))
        skips = await unless_refused("The skips could not be moved", moving) or await self._skips()
        plan = await asyncio.to_thread(_jumped_plan, moved, move, now, skips)
        await self._carry_out(plan, await self._claimed(plan, now), now, JUMPED_OVER)

    async def _skips(self) -> Skips:
        """The owner's skips; none if they cannot be read: an extra run is the lesser harm."""
        reading = self._store.read(lambda tx: tx.skips.get())
        return await unless_refused("What is to be skipped cannot be read", reading) or Skips()

    async def close(self) -> None:
        for task in self._late:
            task.cancel()
        await self._dispatch.close()

    async def _catch_up(self, since: datetime, now: datetime) -> None:
        """Plan all jobs, start late runs one by one, and tell the rest in one message."""
        skips = await self._skips()

        def planned() -> CatchUp:
            jobs = (job for job in scheduled_jobs(self._index) if key_of(job) not in self._came)
            due = self._agenda.catch_up(jobs, since, now)
            return catch_up(due, since, now, zone_of(self._clock), skips.has)

        plan = await asyncio.to_thread(planned)
        claimed = await self._claimed(plan, now)
        self._is_planned = True
        for job, at in self._overdue(scheduled_jobs(self._index), since):
            self._claim(job, at, now)
        await self._carry_out(plan, claimed, now, WHILE_AWAY)

    async def _carry_out(
        self, plan: CatchUp, claimed: Set[Occurrence], now: datetime, cause: str
    ) -> None:
        for missed in plan.run:
            if missed.occurrence not in claimed:
                self._claim(missed.job, missed.newest, now)
        runs = [missed for missed in plan.run if missed.occurrence in claimed]

        async def run_late() -> None:
            """Those on time start at once, the late ones one after another."""
            for each in sorted(runs, key=lambda one: one.late_since(now) is not None):
                self._dispatch.start_claimed(_due(each.job, each.newest, now))
                if each.late_since(now) is not None:
                    await self._clock.sleep(BETWEEN_LATE_RUNS.total_seconds())

        self._do_later(run_late())
        await self._end_missed(plan, cause)

    async def _pass_over(self) -> None:
        """End what came due between a copy and the return to it, and tell it."""
        window = await self._store.read(lambda tx: tx.passed_over.get())
        since, until = window.since, window.until
        if since is None or until is None:
            return
        jobs = [*scheduled_jobs(self._index)]
        zone, now = zone_of(self._clock), self._clock.now()
        found = await asyncio.to_thread(catch_up, jobs, since, until, zone)
        plan, owed = passed_over(found, is_backup=window.is_backup)
        news = await self._store.read(lambda tx: _unclaimed(tx, plan.tell))
        text = passed_over_message(news, now, "backup" if window.is_backup else "copy")
        notice = notice_of(news, text, "passed over", is_promised=True)
        announced = await asyncio.to_thread(heads_up_rows, jobs, window, zone, now)

        def step(tx: Transaction) -> None:
            end_missed(tx, plan, notice)
            tx.ledger.claim_all([*owed_rows(owed, tx.now), *announced])
            tx.passed_over.put(PassedOver())

        await self._gate.commit(step)
        await self._files.make()

    async def _end_missed(self, plan: CatchUp, cause: str) -> None:
        """Write the ends of occurrences that do not run, and tell them; on a full disk, later."""
        news = await self._store.read(lambda tx: _unclaimed(tx, plan.tell))
        text = away_message(news, self._clock.now(), cause)
        away = notice_of(news, text, "away", is_promised=False)
        for part in plan.parts(_ENDED_AT_ONCE):
            end = partial(end_missed, plan=part, away=away)
            if not await unless_refused("An end has to wait", self._store.transact(end)):
                written = asyncio.Event()
                self._claiming.append(written)
                self._do_later(self._end_later(end, away, written))
            away = None
        await self._files.make()

    async def _end_later(
        self, end: Step[bool], away: Notice | None, written: asyncio.Event
    ) -> None:
        await self._gate.commit(end, notice=away)
        written.set()
        await self._files.make()

    def _claim(self, job: Job, at: datetime, now: datetime) -> None:
        self._claiming.append(self._dispatch.claim_and_start(_due(job, at, now)))

    async def _claimed(self, plan: CatchUp, now: datetime) -> Set[Occurrence]:
        """The occurrences that were claimed for the plan; none on a full disk."""
        begun = [claiming_row(one.occurrence, now, one.facts) for one in plan.run]
        claiming = self._store.transact(lambda tx: tx.ledger.claim_all(begun))
        return await unless_refused("What is due could not be claimed", claiming) or frozenset()

    def _do_later(self, work: Coroutine[None, None, None]) -> None:
        going = {task for task in self._late if not task.done()}
        self._late = going | {asyncio.create_task(work)}

    def _overdue(self, jobs: Iterable[Job], since: datetime) -> Iterator[tuple[Job, datetime]]:
        """What was due before `since` and may not have come, with the moment it had.

        A reminder is, whose file still exists: it was written with a past moment, or a crash
        prevented its removal. So is a routine that was planned for a moment just past.
        """
        zone = zone_of(self._clock)
        for job in jobs:
            at = None
            if isinstance(job, Reminder):
                at = self._came.get(key_of(job)) or last_due(job, since, zone)
            elif isinstance(job, Routine):
                at = plan_just_passed(job, since, zone)
            if at is not None:
                yield job, at

    async def _note_came(self, begun: Iterable[Occurrence]) -> None:
        """Note the reminders that came by the clock of another zone, and have not ended."""
        open_ones = {JobKey(one.kind, one.job_id): one for one in begun if not one.manual}
        jobs = [(job, open_ones.get(key_of(job))) for job in scheduled_jobs(self._index)]
        came = [(job, one) for job, one in jobs if isinstance(job, Reminder) and one is not None]
        if not came:
            return
        armed = (await self._store.read(lambda tx: tx.ledger.armed())).jobs
        for job, one in came:
            known, own = armed.get(key_of(job)), Definition.of(job, zone_of(self._clock))
            if known is not None and known.mark == own.mark and known.zone != own.zone:
                self._came[key_of(job)] = one.scheduled_at or job.due(zone_of(self._clock))


def _jumped_plan(
    jobs: Iterable[ScheduledJob], move: ZoneMove, now: datetime, skips: Skips
) -> CatchUp:
    """What to do about the moments that the new clock has jumped over."""
    groups: dict[datetime, list[ScheduledJob]] = {}
    for job in filter(move.may_jump, jobs):
        is_routine = isinstance(job, Routine)
        since = move.jumped_since(job) if is_routine else move.at - _LONGEST_JUMP
        groups.setdefault(since, []).append(job)
    plans = [catch_up(group, since, now, move.after, skips.has) for since, group in groups.items()]
    return CatchUp(
        run=tuple(each for plan in plans for each in plan.run),
        tell=tuple(each for plan in plans for each in plan.tell),
        skip=tuple(each for plan in plans for each in plan.skip),
    )


def _due(job: Job, at: datetime, now: datetime) -> DueOccurrence:
    return DueOccurrence(job, occurrence_at(job, at), at if is_late(at, now) else None)


def _unclaimed(tx: Transaction, missed: Iterable[Missed]) -> list[Missed]:
    """The missed ones without a claim: after a set-back clock, some were told before."""
    return [one for one in missed if not tx.ledger.has(one.occurrence)]
