"""The loop that notices changes of job files and serves what is due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.changes.job_files import JobFileChanges
from ollim_bot.kernel.schedule.job_index import AnswerPlans, Changes, JobIndex, job_of
from ollim_bot.kernel.schedule.ledger_records import ScheduleRecords
from ollim_bot.kernel.schedule.watcher import SCAN_SECONDS, Watcher
from ollim_bot.kernel.values.jobs import Job
from ollim_bot.kernel.values.schedule import ASLEEP
from ollim_bot.kernel.values.travel import ZoneMove

# Bounds how late an unreported file change, a set clock, or a sleep of the machine is noticed.
_LONGEST_SLEEP = SCAN_SECONDS
_SHORTEST_SLEEP = 0.001
_NOT_ARMED = "The list of jobs could not be written down"

_logger = logging.getLogger(__name__)


class DueSource:
    """One kind of thing that comes due: jobs, heads-ups, or open items that come again.

    `since` is the moment until which the source has served everything due. Moments are in UTC.
    What the disk refuses, it is asked to serve again.
    """

    # Whether a later start finds what is due from the heartbeat on, which then must wait for it.
    counts_from_heartbeat = False

    @property
    def next_at(self) -> datetime | None:
        """When something is due next; None if nothing is."""
        return None

    @property
    def is_behind(self) -> bool:
        """Whether something due is not recorded yet, so that the heartbeat must wait for it."""
        return False

    async def start(self, since: datetime, now: datetime) -> None:
        """Take up what the last stop left, before any source serves anything."""

    async def serve_due(self, since: datetime, now: datetime) -> None:
        """Serve everything due later than `since` and not later than `now`."""

    def follow_changes(self, changes: Changes, since: datetime) -> None:
        """Plan added and changed jobs for their moments later than `since`; forget removed ones."""

    async def follow_zone(self, move: ZoneMove, now: datetime) -> None:
        """Plan what follows the owner's clock by the new one, which the clock shows already."""

    async def follow_clock(self, now: datetime) -> None:
        """Plan everything anew after the clock was set back to `now`."""

    async def close(self) -> None:
        """End everything that goes on beside the loop; the next start takes it up again."""


class Scheduler:
    """Has every source serve what is due; all that was due until `_watched_until` is served.

    What comes from outside, such as the owner's wish to run a job, is served `beside` the loop,
    once the start has resumed what was left.

    Moments are in UTC, because Python compares moments of one zone by wall clock, which is wrong in
    the hour that occurs twice.
    """

    def __init__(
        self,
        index: JobIndex,
        watcher: Watcher,
        files: JobFileChanges,
        sources: Sequence[DueSource],
        beside: Sequence[Callable[[], Coroutine[None, None, None]]],
        records: ScheduleRecords,
        plans: AnswerPlans,
        clock: Clock,
    ) -> None:
        self._index = index
        self._watcher = watcher
        self._files = files
        self._sources = sources
        self._beside = beside
        self._armed = records.armed
        self._heartbeat = records.heartbeat
        self._zone = records.zone
        self._plans = plans
        self._clock = clock
        self._watched_until = self._now
        # The sources that the disk has refused, each with the moment until which it has served.
        self._refused: dict[DueSource, datetime] = {}
        self._look_at = clock.monotonic() + _LONGEST_SLEEP
        self._looked_at: float | None = None
        self._has_started = asyncio.Event()

    def job(self, key: JobKey) -> Job | None:
        """The job that is in use now."""
        return job_of(self._index, key)

    async def started(self) -> None:
        """Return when all jobs are known and what was missed is caught up on."""
        await self._has_started.wait()

    @property
    def heartbeat_age(self) -> float | None:
        """Seconds since the scheduler last looked at the clock; None before the first look."""
        looked_at = self._looked_at
        return None if looked_at is None else self._clock.monotonic() - looked_at

    async def read_jobs(self) -> None:
        """Read all job files, without arming or starting any job."""
        self._index.remember(await self._armed.marks())
        await self._index.refresh()

    async def run(self) -> None:
        """Run until cancelled. The schedule waits for no surface and no network."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watcher.run())
            await self._start()
            self._has_started.set()
            for run in self._beside:
                group.create_task(run())
            while True:
                now, next_at = self._now, self._next_at
                waits = [_LONGEST_SLEEP, self._look_at - self._clock.monotonic()]
                if next_at is not None:
                    waits.append((next_at - now).total_seconds())
                is_calm = await self._watcher.wait(max(min(waits), _SHORTEST_SLEEP))
                is_early = self._clock.monotonic() < self._look_at
                next_at = self._next_at
                # A due job's file is read again before its start.
                is_due = next_at is not None and next_at <= self._now
                if not (is_calm and is_early) or is_due:
                    await self._look()
                await self._tick()

    async def close(self) -> None:
        """Call after `run` and the background runs have ended. The next start resumes the rest."""
        self._zone.close()
        self._plans.close()
        for source in self._sources:
            await source.close()
        if self._looked_at is not None:
            await self._heartbeat.checkpoint(self._watched_until, self._watched_until)

    async def _start(self) -> None:
        """Resume what the last stop left unfinished, and catch up on what was missed."""
        await self._files.make()
        await self.read_jobs()
        now = self._now
        last = await self._heartbeat.last()
        self._watched_until = min(_utc(last or now), now)
        if last is None:
            # Beat before arming: after a crash, no job must be armed without a heartbeat.
            await self._beat(now)
        await self._heartbeat.start(now)
        self._zone.watch(self._watcher.woken)
        move = await self._zone.last_move(self._watched_until, self.jobs)
        if move is not None:
            await unless_refused(_NOT_ARMED, self._armed.move(self.jobs, move, now))
        written = self._armed.write_all(self.jobs, now, self._watched_until)
        await unless_refused(_NOT_ARMED, written)
        self._plans.watch()
        self._plans.note_jobs()
        await self._plans.follow(self._watched_until, has_moved=move is not None)
        for source in self._sources:
            await source.start(self._watched_until, now)
        await self._plan_in_zone(move, now)
        await self._serve(now)
        await self._heartbeat.checkpoint(now, now)
        await self._beat(now)

    async def _look(self) -> None:
        if self._now - self._watched_until > ASLEEP:
            # The sentinel may have armed a job while this process stood still.
            self._armed.forget()
        changes = await self._index.refresh()
        self._look_at = self._clock.monotonic() + changes.next_look_in
        if not changes:
            return
        written = self._armed.write(changes, self.jobs, self._now, self._watched_until)
        await unless_refused(_NOT_ARMED, written)
        self._plans.note_jobs()
        self._pass_on(changes)

    async def _tick(self) -> None:
        now = self._now
        if now < self._watched_until:
            self._watched_until = now
            await self._heartbeat.checkpoint(now, now)
            for source in self._sources:
                await source.follow_clock(now)
        if not self._is_behind:
            await self._follow_plans()
        await self._serve(now)
        move = await self._zone.next_move(now, self.jobs)
        if move is not None:
            self._zone.follow(move)
            await unless_refused(_NOT_ARMED, self._armed.move(self.jobs, move, now))
            await self._follow_plans(has_moved=True)
            await self._plan_in_zone(move, now)
        await self._beat(now)

    async def _follow_plans(self, *, has_moved: bool = False) -> None:
        changes = await self._plans.follow(self._watched_until, has_moved=has_moved)
        if changes:
            self._pass_on(changes)

    def _pass_on(self, changes: Changes) -> None:
        for source in self._sources:
            # Not since now: an occurrence between the two readings would be skipped.
            source.follow_changes(changes, self._refused.get(source, self._watched_until))

    async def _plan_in_zone(self, move: ZoneMove | None, now: datetime) -> None:
        """Follow the move, if there is one. A crash before its end repeats it."""
        if move is not None:
            for source in self._sources:
                await source.follow_zone(move, now)
        await unless_refused("The time zone could not be written down", self._zone.note_planned())

    @property
    def jobs(self) -> list[Job]:
        """All jobs whose files are right, or were before their last change."""
        return [one.job for one in self._index.jobs.values()]

    async def _serve(self, now: datetime) -> None:
        for source in self._sources:
            since = self._refused.get(source, self._watched_until)
            try:
                await source.serve_due(since, now)
                self._refused.pop(source, None)
            except StorageError as refused:
                if source not in self._refused:
                    _logger.warning("%s has to wait: %s", type(source).__name__, refused)
                self._refused[source] = since
        self._watched_until = now
        self._looked_at = self._clock.monotonic()

    async def _beat(self, now: datetime) -> None:
        """Write the heartbeat, if everything due until `now` is recorded."""
        if not self._is_behind:
            await self._heartbeat.beat(now)

    @property
    def _is_behind(self) -> bool:
        refused = any(source.counts_from_heartbeat for source in self._refused)
        return refused or any(source.is_behind for source in self._sources)

    @property
    def _now(self) -> datetime:
        return _utc(self._clock.now())

    @property
    def _next_at(self) -> datetime | None:
        found = (source.next_at for source in self._sources if source not in self._refused)
        return min((at for at in found if at is not None), default=None)


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)
