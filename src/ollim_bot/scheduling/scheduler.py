"""Time becomes work: watches the job files and the clock, and hands on what is due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from datetime import UTC, datetime, timedelta, tzinfo

from ollim_bot.conversation.notices import Notices
from ollim_bot.domain.catch_up import CatchUp, Missed, away_message, catch_up, is_late
from ollim_bot.domain.definitions import Definition
from ollim_bot.domain.facts import Facts
from ollim_bot.domain.jobs import Job, Reminder, Routine, kind_of
from ollim_bot.domain.occurrences import LedgerRow, Occurrence, OccurrenceState, SkipReason
from ollim_bot.domain.run_history import RunStory, claiming_row
from ollim_bot.domain.schedule import Agenda, JobKey, ScheduledJob, key_of, next_due
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.scheduling.dispatch import Dispatch, Work
from ollim_bot.scheduling.job_book import JobBook
from ollim_bot.scheduling.watcher import SCAN_SECONDS, Watcher
from ollim_bot.stores import Stores

# No sleep is longer, so that a file that nobody told of, a clock that was set, or a machine that
# slept, is noticed.
_LONGEST_SLEEP = SCAN_SECONDS
# Who has not looked for so long was asleep: what was due meanwhile is caught up with.
_ASLEEP = timedelta(seconds=90)
_BETWEEN_LATE_RUNS = 5.0
_BETWEEN_BEATS = timedelta(seconds=30)
_BETWEEN_CHECKPOINTS = timedelta(hours=1)
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
    ) -> None:
        self._stores = stores
        self._book = book
        self._watcher = watcher
        self._dispatch = dispatch
        self._notices = notices
        self._clock = clock
        self._zone = zone
        self._agenda: Agenda[JobKey] = Agenda()
        self._watched_until = _utc(clock.now())
        self._checkpoint_at = _utc(clock.now())
        self._beat_at = _utc(clock.now()) - _BETWEEN_BEATS
        self._look_in: float | None = None
        self._looked_at: float | None = None
        self._late: list[asyncio.Task[None]] = []

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
            while True:
                await self._watcher.wait(self._pause())
                await self._look()
                await self._tick()

    async def close(self) -> None:
        """After `run` has ended, and the runs have: what is left is gone on with at a start."""
        for task in self._late:
            task.cancel()
        await self._dispatch.close()

    async def _start(self) -> None:
        """What the last stop left is gone on with, and what was missed is caught up with."""
        await self._book.refresh()
        now = self._now
        raw = await asyncio.to_thread(self._stores.memory.read)
        self._watched_until = min(_utc(Facts(raw).heartbeat or now), now)
        await self._write_armed(now)
        history = await asyncio.to_thread(self._stores.recent_history)
        for story in history.unfinished:
            await self._go_on(story, now)
        await self._catch_up(now)
        self._arm_all(now)
        await self._beat(now)

    async def _go_on(self, story: RunStory, now: datetime) -> None:
        occurrence = story.occurrence
        job = self._job(JobKey(occurrence.kind, occurrence.job_id))
        if job is None:
            await self._dispatch.abandon(story)
            return
        due = occurrence.scheduled_at
        late_since = due if due is not None and is_late(due, now) else None
        self._dispatch.go_on(Work(job, occurrence, late_since), story)

    async def _look(self) -> None:
        changes = await self._book.refresh()
        self._look_in = changes.look_again_in
        if not changes:
            return
        now = self._now
        await self._write_armed(now)
        for gone in changes.removed:
            self._agenda.remove(JobKey(*gone.key))
        for booked in (*changes.added, *changes.changed):
            self._arm(booked.job, now)

    async def _tick(self) -> None:
        now = self._now
        if now < self._watched_until:
            # The clock was set back. What was claimed stays claimed.
            self._watched_until = now
            self._arm_all(now)
        elif now - self._watched_until > _ASLEEP:
            await self._catch_up(now)
            self._arm_all(now)
        for key, at in self._agenda.due(now):
            job = self._job(key)
            if job is not None:
                self._dispatch.fire(self._work(job, at, now))
                self._arm_next(job, max(at, now))
        self._watched_until = now
        self._looked_at = self._clock.monotonic()
        await self._beat(now)

    async def _catch_up(self, now: datetime) -> None:
        """Late runs begin one by one; what is only told is told in one message."""
        plan, claimed = await asyncio.to_thread(self._caught_up, now)
        for reminder in self._overdue():
            self._dispatch.fire(self._work(reminder, reminder.due(self._zone), now))
        # After a clock that was set back, some of it was told before.
        news = [missed for missed in plan.tell if _occurrence(missed.job, missed.newest) in claimed]
        if news:
            key = f"away {self._watched_until.isoformat()}"
            await self._notices.tell(away_message(news, self._clock.now()), key=key)
        for missed in (*plan.tell, *plan.skip):
            if isinstance(missed.job, Reminder):
                await self._dispatch.put_away(missed.job)
        self._watched_until = now
        late = [missed for missed in plan.run if missed.late_since(now)]
        for missed in plan.run:
            if missed not in late:
                self._dispatch.fire(self._work(missed.job, missed.newest, now))
        if late:
            self._late.append(asyncio.create_task(self._run_late(late, now)))

    def _caught_up(self, now: datetime) -> tuple[CatchUp, Set[Occurrence]]:
        """The plan, and which of those that end at once were not known yet."""
        plan = catch_up(self._scheduled(), self._watched_until, now, self._zone)
        return plan, self._stores.claims.claim_all(_rows_of(plan, now))

    async def _run_late(self, missed: Iterable[Missed], now: datetime) -> None:
        for each in missed:
            self._dispatch.fire(self._work(each.job, each.newest, now))
            await self._clock.sleep(_BETWEEN_LATE_RUNS)

    def _work(self, job: Job, at: datetime, now: datetime) -> Work:
        return Work(job, _occurrence(job, at), at if is_late(at, now) else None)

    def _overdue(self) -> Iterator[Reminder]:
        """Reminders of moments that were watched, which are still there.

        Somebody has made one with a moment of the past, or a crash has kept its file from going.
        """
        reminders = (job for job in self._scheduled() if isinstance(job, Reminder))
        for reminder in reminders:
            if reminder.spec.enabled and _utc(reminder.due(self._zone)) <= self._watched_until:
                yield reminder

    def _arm_all(self, now: datetime) -> None:
        for job in self._scheduled():
            if isinstance(job, Routine) or _utc(job.due(self._zone)) > now:
                self._arm(job, now)

    def _arm(self, job: Job, now: datetime) -> None:
        """A reminder of the past is due at once; whoever has claimed it has it."""
        if isinstance(job, Reminder) and job.spec.enabled:
            self._agenda.put(key_of(job), job.due(self._zone))
        else:
            self._arm_next(job, now)

    def _arm_next(self, job: Job, after: datetime) -> None:
        at = next_due(job, after, self._zone) if isinstance(job, Routine) else None
        if at is not None:
            self._agenda.put(key_of(job), at)
        else:
            self._agenda.remove(key_of(job))

    async def _write_armed(self, now: datetime) -> None:
        definitions = [Definition.of(one.job, self._zone) for one in self._book.jobs.values()]

        def write() -> None:
            armed = self._stores.armed_jobs()
            rows = armed.rows_for(definitions, now, self._watched_until)
            if rows:
                self._stores.ledger.append(*rows)

        await self._kept("The jobs could not be written down", write)

    async def _beat(self, now: datetime) -> None:
        if now - self._beat_at < _BETWEEN_BEATS and now >= self._beat_at:
            return
        self._beat_at = now

        def write() -> None:
            self._stores.memory.transact(lambda raw: (Facts(raw).beaten(now).raw, None))
            if now - self._checkpoint_at > _BETWEEN_CHECKPOINTS:
                self._checkpoint_at = now
                self._stores.keep_checkpoint(now, self._watched_until)

        await self._kept("The heartbeat could not be written down", write)

    async def _kept(self, trouble: str, write: Callable[[], None]) -> None:
        """The schedule goes on without what is only for those who look back."""
        try:
            await asyncio.to_thread(write)
        except StorageError:
            _logger.warning("%s", trouble, exc_info=True)

    @property
    def _now(self) -> datetime:
        return _utc(self._clock.now())

    def _pause(self) -> float:
        now = self._now
        next_at = self._agenda.next_at
        waits = [_LONGEST_SLEEP]
        if next_at is not None:
            waits.append((next_at - now).total_seconds())
        if self._look_in is not None:
            waits.append(self._look_in)
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


def _occurrence(job: Job, at: datetime) -> Occurrence:
    return Occurrence.scheduled(kind_of(job), job.spec.id, at)


def _rows_of(plan: CatchUp, now: datetime) -> list[LedgerRow]:
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
    occurrence = _occurrence(job, moment)
    silent = {"job": job.spec.title, "silent_because": "it was not run"}
    end = LedgerRow(now, state.value, occurrence, {**silent, **facts})
    return [claiming_row(occurrence, now), end]
