"""When a cron pattern is due, by a slow walk through every minute of a clock.

It uses no code under test, and parses no text.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Pattern:
    """The values that match; with `either`, the day or the weekday is enough."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool

    def matches(self, wall: datetime) -> bool:
        return (
            wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.month in self.months
            and self._matches_day(wall)
        )

    def _matches_day(self, wall: datetime) -> bool:
        day, weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        return (day or weekday) if self.either else (day and weekday)


class Tick(NamedTuple):
    """One minute: its instant, the wall-clock time, and the wall-clock times skipped before it."""

    instant: datetime
    wall: datetime
    skipped: tuple[datetime, ...]
    shown_before: bool


@cache
def ticks(zone: ZoneInfo, start: datetime, end: datetime) -> tuple[Tick, ...]:
    """The minutes from `start` up to `end`; the walk begins two days earlier."""
    watched = []
    instant = start - timedelta(days=2)
    latest = _wall(instant, zone) - MINUTE
    while instant < end:
        wall = _wall(instant, zone)
        skipped = tuple(_minutes(latest + MINUTE, wall))
        watched.append(Tick(instant, wall, skipped, shown_before=wall <= latest))
        latest = max(latest, wall)
        instant += MINUTE
    return tuple(tick for tick in watched if tick.instant >= start)


def moments(pattern: Pattern, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """The instants of `pattern` from `start` up to `end`, whole minutes, all in UTC."""
    rule = _in_real_time if len(pattern.hours) == 24 else _by_the_wall
    return [tick.instant for tick in ticks(zone, start, end) if rule(pattern, tick)]


def _in_real_time(pattern: Pattern, tick: Tick) -> bool:
    return pattern.matches(tick.wall)


def _by_the_wall(pattern: Pattern, tick: Tick) -> bool:
    return not tick.shown_before and any(map(pattern.matches, (tick.wall, *tick.skipped)))


def _wall(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _minutes(start: datetime, end: datetime) -> list[datetime]:
    return [start + n * MINUTE for n in range((end - start) // MINUTE)]
