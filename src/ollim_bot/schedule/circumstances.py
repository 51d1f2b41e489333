"""Reads the circumstances of an occurrence for the decision about it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ollim_bot.conversation.background import BackgroundRuns
from ollim_bot.conversation.jobs.foreground import ForegroundJobs
from ollim_bot.conversation.jobs.plain_calls import PlainCalls
from ollim_bot.domain.calendar import CalendarCopy
from ollim_bot.domain.decision import Circumstances, Progress
from ollim_bot.domain.forward_schedule import UpcomingSchedule, build_upcoming_schedule
from ollim_bot.domain.jobs import Job, Reminder, Routine, is_ordered
from ollim_bot.domain.occurrences import Occurrence, OccurrenceState
from ollim_bot.domain.owner_choices import Skips
from ollim_bot.domain.quiet import quiet_until
from ollim_bot.domain.schedule import key_of
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.schedule.job_index import JobIndex, scheduled_jobs
from ollim_bot.store.steps import quiet_settings, reached_cost_cap
from ollim_bot.store.store import Store

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DueOccurrence:
    """An occurrence with its job; `late_since` is its due moment if it is late.

    `overtaken` is set when its run is not waited for any more, and is soon to end.
    """

    job: Job
    occurrence: Occurrence
    late_since: datetime | None = None
    overtaken: asyncio.Event = field(default_factory=asyncio.Event, compare=False)

    @classmethod
    def by_hand(cls, job: Job, now: datetime) -> DueOccurrence:
        return cls(job, Occurrence.by_hand(job.kind, job.spec.id, now))

    @property
    def ordered(self) -> Reminder | Routine | None:
        """The job, if the program delivers it where no run does."""
        job = self.job
        return job if isinstance(job, Reminder | Routine) and is_ordered(job) else None


@dataclass(frozen=True, slots=True)
class JobRunners:
    """The ways in which a job runs: as a turn of the conversation, on its own, or without a model.

    What must be delivered without a model has a part of its own.
    """

    foreground: ForegroundJobs
    background: BackgroundRuns
    plain_calls: PlainCalls


class CircumstanceReader:
    def __init__(self, store: Store, runners: JobRunners, clock: Clock) -> None:
        self._store = store
        self._foreground = runners.foreground
        self._background = runners.background
        self._clock = clock
        self._skips = RequestedSkips(store)
        self._store = store

    async def read(
        self, due: DueOccurrence, progress: Progress, *, is_running: bool
    ) -> Circumstances:
        one, now = due.occurrence, self._clock.now()
        return Circumstances(
            one.scheduled_at,
            now,
            now.tzinfo or UTC,
            progress,
            is_manual=one.manual,
            is_skipped=not progress.is_begun and await self._skips.has(one),
            is_queued=self._foreground.has(one),
            is_running=is_running,
            reached_cost_cap=await self._reached_cap(one),
            missing_skills=await self._missing_skills(due),
            excess_tools=await self._excess_tools(due),
            can_screen=self._background.can_screen,
            quiet_until=await self._quiet_until(due, now),
        )

    async def _quiet_until(self, due: DueOccurrence, now: datetime) -> datetime | None:
        if not due.job.keeps_quiet:
            return None
        return quiet_until(await self._store.read(quiet_settings), now)

    async def after_failure(
        self, due: DueOccurrence, before: Circumstances, attempt: int
    ) -> Circumstances:
        """The circumstances of the retry that follows attempt number `attempt`."""
        return before._replace(
            now=self._clock.now(),
            progress=Progress(OccurrenceState.ATTEMPT_FAILED, attempt),
            has_just_failed=True,
            is_running=False,
            reached_cost_cap=await self._reached_cap(due.occurrence),
            missing_skills=await self._missing_skills(due),
            excess_tools=await self._excess_tools(due),
        )

    async def at_start(self, one: Occurrence, given: Circumstances) -> Circumstances:
        """Add what the store knows: the owner's skips, and the inbox as the last stop left it."""
        wish = await self._skips.has(one)
        return given._replace(is_skipped=wish, is_queued=self._foreground.has(one))

    async def _reached_cap(self, one: Occurrence) -> float | None:
        return None if one.manual else await self._store.read(reached_cost_cap)

    async def _missing_skills(self, due: DueOccurrence) -> tuple[str, ...]:
        if not due.job.spec.skills:
            return ()
        return tuple(await self._background.missing_skills(due.job))

    async def _excess_tools(self, due: DueOccurrence) -> tuple[str, ...]:
        if not due.job.spec.skills:
            return ()
        return tuple(await self._background.excess_tools(due.job))


class RequestedSkips:
    """The moments that the owner wants skipped."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def has(self, occurrence: Occurrence) -> bool:
        return (await self.read()).has(occurrence)

    async def read(self) -> Skips:
        """The owner's skips. An unreadable database has none: an extra run is the lesser harm."""
        try:
            return await self._store.read(lambda tx: tx.skips.get())
        except StorageError:
            _logger.warning("What is to be skipped cannot be read", exc_info=True)
            return Skips()


class UpcomingReader:
    def __init__(
        self,
        index: JobIndex,
        clock: Clock,
        root: Path,
        calendars: Callable[[], Sequence[CalendarCopy]],
    ) -> None:
        self._index = index
        self._clock = clock
        self._root = root
        self._calendars = calendars

    def __call__(self, current: Occurrence) -> UpcomingSchedule:
        """The schedule around `current`. Slow with very many jobs: call it in a thread."""
        now, indexed = self._clock.now(), [*self._index.jobs.values()]
        paths = {key_of(one.job): str(one.path.relative_to(self._root)) for one in indexed}
        upcoming = build_upcoming_schedule(
            [*scheduled_jobs(self._index)], now, current, now.tzinfo or UTC, paths
        )
        return upcoming.with_calendars(self._calendars())
