"""The coming week for the page: rehearsed away from the loop, and kept until something changes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

from ollim_bot.conversation.jobs.overviews import MADE_OF
from ollim_bot.domain.calendar import CalendarCopy
from ollim_bot.domain.costs import PastCosts
from ollim_bot.domain.forecast import LOOKS_BACK
from ollim_bot.domain.moments import elapsed
from ollim_bot.domain.rehearsal import Assumptions
from ollim_bot.domain.rehearsal.week import RehearsedWeek, rehearse_week
from ollim_bot.domain.schedule import ScheduledJob
from ollim_bot.domain.week import WeekView, week_of
from ollim_bot.errors import WrongInput
from ollim_bot.ports import Clock, JobRepositories
from ollim_bot.store.steps import quiet_settings
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

# The records beside those of the overviews: pings, quiet, settings, and what runs have cost.
_MORE = frozenset({"budget", "quiet", "config", "usage"})
_LONGEST_KEPT = timedelta(minutes=10)
# A rehearsal is followed by a pause so many times as long, so that it never takes a whole core.
_PAUSE_FACTOR = 10
# A shorter rehearsal needs no pause.
_SHORT = 0.05
_HOUR = re.compile(r"\d{4}-\d\d-\d\dT\d\d", re.ASCII)


class WeekRehearser:
    """Rehearses the coming week of a bot that runs. `skills` gives the names of those that load."""

    def __init__(
        self,
        store: Store,
        repositories: JobRepositories,
        skills: Callable[[], Set[str] | None],
        clock: Clock,
    ) -> None:
        self._store = store
        self._repositories = repositories
        self._skills = skills
        self._clock = clock

    async def rehearse(self) -> RehearsedWeek:
        return await asyncio.to_thread(self._rehearse)

    def _rehearse(self) -> RehearsedWeek:
        now, skills = self._clock.now(), self._skills()
        jobs: list[ScheduledJob] = [
            *(each.item for each in self._repositories.routines.all()),
            *(each.item for each in self._repositories.reminders.all()),
        ]

        def question(tx: Transaction) -> Assumptions:
            skips, zone = tx.skips.get(), now.tzinfo
            assert zone is not None
            return Assumptions(
                now,
                zone,
                tx.budget.get(),
                tx.config.get(),
                skills=skills,
                is_skipped=skips.has if skips.moments or skips.repetitions else None,
                quiet=quiet_settings(tx, zone),
            )

        given = self._store.query(question)
        return rehearse_week(jobs, given)


class _KeptWeek(NamedTuple):
    week: WeekView
    change: int


class WeekPanel:
    """A `View` of the week. `rehearsed` gives the rehearsal, kept or new."""

    def __init__(
        self,
        store: Store,
        rehearsed: Callable[[], Awaitable[RehearsedWeek]],
        calendars: Callable[[], Sequence[CalendarCopy]],
        clock: Clock,
    ) -> None:
        self._store = store
        self._rehearsed = rehearsed
        self._calendars = calendars
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._kept: _KeptWeek | None = None
        self._change = 0
        self._is_watched = False
        self._length = 0.0

    async def look(self, asked: Mapping[str, str], /) -> WeekView:
        """The week; with `hour` in the address, such as `2026-11-19T15`, that hour alone."""
        hour = asked.get("hour", "")
        if hour and not _HOUR.fullmatch(hour):
            raise WrongInput("That is no hour of this week. Go back to the week.")
        async with self._one_at_a_time:
            kept = self._kept
            if kept is None or not self._is_fresh(kept):
                began, change = self._clock.monotonic(), self._change
                kept = self._kept = _KeptWeek(await self._new_view(), change)
                self._length = self._clock.monotonic() - began
        week = kept.week
        if not hour:
            return week
        found = [each for day in week.days for each in day.hours if each.key == hour]
        if not found:
            raise WrongInput("Nothing comes in that hour any more. Go back to the week.")
        return replace(week, only=found)

    async def changes(self) -> AsyncGenerator[None, None]:
        with self._store.changes(*MADE_OF, *_MORE) as has_changed:
            self._change, self._is_watched = self._change + 1, True
            try:
                while True:
                    await has_changed.wait()
                    if self._length > _SHORT:
                        await self._clock.sleep(self._length * _PAUSE_FACTOR)
                    has_changed.clear()
                    self._change += 1
                    yield
            finally:
                self._is_watched = False

    def _is_fresh(self, kept: _KeptWeek) -> bool:
        """Whether it can still be shown; nothing can that is not watched."""
        age = elapsed(kept.week.now, self._clock.now())
        return self._is_watched and kept.change == self._change and age < _LONGEST_KEPT

    async def _new_view(self) -> WeekView:
        return await asyncio.to_thread(self._view, await self._rehearsed())

    def _view(self, week: RehearsedWeek) -> WeekView:
        since, given = week.now - LOOKS_BACK, week.given
        past = self._store.query(lambda tx: tx.usage.since(since))
        return week_of(
            week.rehearsal,
            week.findings,
            given.quiet,
            self._calendars(),
            given.config.travel_minutes,
            PastCosts(past),
        )
