"""The coming week: rehearsed away from the loop, and kept until something changes."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, timedelta
from typing import NamedTuple

from ollim_bot.features.week.rehearsal_difference import (
    NOTHING_CHANGES,
    RehearsedWeek,
    rehearse_week,
)
from ollim_bot.features.week.week import WeekView, week_of
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import NotFound, WrongInput
from ollim_bot.kernel.base.moments import elapsed
from ollim_bot.kernel.store.steps import pushed_to_phone, quiet_settings
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.answer_plans import with_plan_of
from ollim_bot.kernel.values.calendar import CalendarCopy
from ollim_bot.kernel.values.costs import PAST, PastCosts
from ollim_bot.kernel.values.ports import JobRepositories
from ollim_bot.kernel.values.schedule import ScheduledJob, key_of
from ollim_bot.kernel.values.simulation import Assumptions
from ollim_bot.kernel.values.view_ports import View

# What a rehearsal reads. The ledger has a row for each change of a job.
READ_BY_REHEARSAL = frozenset({"ledger", "config", "budget", "skips", "quiet", "zone", "channels"})

# How old a week may be: always, after a change, as a run makes several, and for another job file.
_LONGEST = timedelta(hours=1)
AFTER_CHANGE = timedelta(seconds=5)
_OF_OTHER_FILE = timedelta(seconds=1)
# A rehearsal is followed by a pause so many times as long, so that it never takes a whole core.
_PAUSE_FACTOR = 10
_HOUR = re.compile(r"\d{4}-\d\d-\d\dT\d\d", re.ASCII)


class KeptWeek(NamedTuple):
    """`week.now` is when it was rehearsed; `costs` are those of the past runs then."""

    week: RehearsedWeek
    costs: PastCosts


class WeekPlans:
    """Rehearses in a thread, one at a time; `skills` are the names of those that load.

    The bot lets a thread go on for half a millisecond at a time, so the event loop goes on.
    """

    def __init__(
        self,
        store: Store,
        repositories: JobRepositories,
        skills: Callable[[], Set[str]],
        clock: Clock,
    ) -> None:
        self._store = store
        self._repositories = repositories
        self._skills = skills
        self._clock = clock
        self._watches = ExitStack()
        self._has_changed = self._watches.enter_context(store.changes(*READ_BY_REHEARSAL))
        self._one_at_a_time = asyncio.Lock()
        self._kept: KeptWeek | None = None

    async def week(self) -> KeptWeek:
        """The coming week; it is rehearsed again if something has changed since.

        Raises `StorageError` if the jobs cannot be read.
        """
        async with self._one_at_a_time:
            return await self._fresh(None)

    async def difference(self, before: ScheduledJob | None, after: ScheduledJob | None) -> str:
        """What the coming week has other with `after` in place of `before`, in plain words.

        None is a job that is not there. Raises `StorageError` if the jobs cannot be read.
        """
        if before is None and after is None:
            return NOTHING_CHANGES
        async with self._one_at_a_time:
            kept = await self._fresh(before)
            former = None if before is None else kept.week.jobs.get(key_of(before))
            planned = None if after is None else with_plan_of(after, former)

            def compare() -> str:
                with _without_full_collections():
                    return kept.week.difference(former, planned, kept.costs).in_words()

            return await asyncio.to_thread(compare)

    async def _fresh(self, job: ScheduledJob | None) -> KeptWeek:
        """The kept week if it is as things are, and has `job` as given; else a new one."""
        kept = self._kept
        if kept is not None:
            longest = AFTER_CHANGE if self._has_changed.is_set() else _LONGEST
            if job is not None and kept.week.jobs.get(key_of(job)) != job:
                longest = _OF_OTHER_FILE
            if elapsed(kept.week.now, self._clock.now()) < longest:
                return kept
        self._has_changed.clear()
        # Two weeks at once would double what a collection of the garbage looks through.
        self._kept = None
        kept = self._kept = await asyncio.to_thread(self._rehearse)
        return kept

    def _rehearse(self) -> KeptWeek:
        now = self._clock.now()
        jobs: list[ScheduledJob] = [
            *(each.item for each in self._repositories.routines.all()),
            *(each.item for each in self._repositories.reminders.all()),
        ]
        skills = self._skills()

        def question(tx: Transaction) -> tuple[Assumptions, PastCosts]:
            skips = tx.skips.get()
            given = Assumptions(
                now,
                now.tzinfo or UTC,
                tx.budget.get(),
                tx.config.get(),
                skills=skills,
                is_skipped=skips.has if skips.moments or skips.repetitions else None,
                quiet=quiet_settings(tx, now.tzinfo),
                pushes=pushed_to_phone(tx),
            )
            return given, PastCosts(tx.usage.since(now - PAST))

        given, costs = self._store.query(question)
        with _without_full_collections():
            return KeptWeek(rehearse_week(jobs, given), costs)


@contextmanager
def _without_full_collections() -> Iterator[None]:
    """Put off full collections of the garbage, which stop all threads for longer than they may."""
    young, old, oldest = gc.get_threshold()
    gc.set_threshold(young, old, 1_000_000)
    try:
        yield
    finally:
        gc.set_threshold(young, old, oldest)


class _KeptView(NamedTuple):
    """The view of a rehearsal and calendars; `length` is how long they took."""

    week: WeekView
    rehearsed: KeptWeek
    calendars: Sequence[CalendarCopy]
    length: timedelta


class WeekPanel(View[WeekView]):
    """A `View` of the week. `rehearsed` gives it, kept or new, as `WeekPlans` does."""

    def __init__(
        self,
        store: Store,
        rehearsed: Callable[[], Awaitable[KeptWeek]],
        calendars: Callable[[], Sequence[CalendarCopy]],
        clock: Clock,
    ) -> None:
        self._store = store
        self._rehearsed = rehearsed
        self._calendars = calendars
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._kept: _KeptView | None = None

    async def look(self, asked: Mapping[str, str], /) -> WeekView:
        """The week; with `hour` in the address, such as `2026-11-19T15`, that hour alone."""
        hour = asked.get("hour", "")
        if hour and not _HOUR.fullmatch(hour):
            raise WrongInput("That is no hour of this week. Go back to the week.")
        async with self._one_at_a_time:
            week = await self._week()
        if not hour:
            return week
        found = [each for day in week.days for each in day.hours if each.key == hour]
        if not found:
            raise NotFound("Nothing comes in that hour any more. Go back to the week.")
        return replace(week, only=found)

    async def changes(self) -> AsyncGenerator[None, None]:
        with self._store.changes(*READ_BY_REHEARSAL) as has_changed:
            while True:
                await has_changed.wait()
                if (pause := self._pause()) > 0:
                    await self._clock.sleep(pause)
                has_changed.clear()
                yield

    def _pause(self) -> float:
        """The seconds until the next rehearsal, which is neither soon nor takes most of a core."""
        if self._kept is None:
            return 0.0
        age = elapsed(self._kept.week.now, self._clock.now())
        return (max(AFTER_CHANGE, self._kept.length * _PAUSE_FACTOR) - age).total_seconds()

    async def _week(self) -> WeekView:
        began, kept = self._clock.monotonic(), self._kept
        rehearsed = await self._rehearsed()
        calendars = await asyncio.to_thread(self._calendars)
        if kept is None or kept.rehearsed is not rehearsed or kept.calendars != calendars:
            given, rehearsal = rehearsed.week.given, rehearsed.week.rehearsal
            found, travel = rehearsed.week.findings, given.config.travel_minutes
            week = await asyncio.to_thread(
                week_of, rehearsal, found, given.quiet, calendars, travel, rehearsed.costs
            )
            length = timedelta(seconds=self._clock.monotonic() - began)
            kept = self._kept = _KeptView(week, rehearsed, calendars, length)
        return kept.week
