"""The coming week for the page: rehearsed away from the loop, and kept until something changes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

from ollim_bot.conversation.jobs.week_plans import AFTER_CHANGE, READ_BY_REHEARSAL, KeptWeek
from ollim_bot.domain.calendar import CalendarCopy
from ollim_bot.domain.moments import elapsed
from ollim_bot.domain.week import WeekView, week_of
from ollim_bot.errors import NotFound, WrongInput
from ollim_bot.ports import Clock
from ollim_bot.store.store import Store

# A rehearsal is followed by a pause so many times as long, so that it never takes a whole core.
_PAUSE_FACTOR = 10
_HOUR = re.compile(r"\d{4}-\d\d-\d\dT\d\d", re.ASCII)


class _KeptView(NamedTuple):
    """The view of a rehearsal and calendars; `length` is how long they took."""

    week: WeekView
    rehearsed: KeptWeek
    calendars: Sequence[CalendarCopy]
    length: timedelta


class WeekPanel:
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
            week = await asyncio.to_thread(_view, rehearsed, calendars)
            length = timedelta(seconds=self._clock.monotonic() - began)
            kept = self._kept = _KeptView(week, rehearsed, calendars, length)
        return kept.week


def _view(rehearsed: KeptWeek, calendars: Sequence[CalendarCopy]) -> WeekView:
    week, given = rehearsed.week, rehearsed.week.given
    return week_of(
        week.rehearsal,
        week.findings,
        given.quiet,
        calendars,
        given.config.travel_minutes,
        rehearsed.costs,
    )
