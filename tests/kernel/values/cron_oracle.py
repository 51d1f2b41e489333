"""When cron patterns are due in a zone, by a walk through all minutes of its clock.

It uses no code under test, and parses no text. All patterns are matched at once: bit n of a mask
stands for pattern n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)

Mask = int

# All clock changes of today's zones are at a quarter of an hour.
QUARTER = 15 * MINUTE


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


def quarters(
    zone: ZoneInfo, start: datetime, end: datetime
) -> Iterator[tuple[datetime, datetime, list[datetime], bool]]:
    """Each quarter of an hour: its instant, the wall-clock time, the wall-clock times skipped
    before it, and whether the clock shows that time for the second time."""
    instant, latest = start, _wall(start, zone) - MINUTE
    while instant <= end:
        wall = _wall(instant, zone)
        skipped = []
        while latest + MINUTE < wall:
            latest += MINUTE
            skipped.append(latest)
        yield instant, wall, skipped, wall <= latest
        latest = max(latest, wall + QUARTER - MINUTE)
        instant += QUARTER


def moments(
    patterns: Sequence[Pattern], zone: ZoneInfo, start: datetime, end: datetime
) -> list[list[datetime]]:
    """For each pattern its instants from `start` to `end`, both whole minutes in UTC."""
    found: list[list[datetime]] = [[] for _ in patterns]
    in_hour, in_minute = _matchers(patterns)
    hourly = _mask(len(pattern.hours) == 24 for pattern in patterns)
    for instant, wall, skipped, shown_before in quarters(zone, start, end):
        made_up = 0
        for left_out in skipped:
            made_up |= in_hour(left_out) & in_minute[left_out.minute] & ~hourly
        possible = in_hour(wall) & (hourly if shown_before else ~0)
        for minute in range(15) if possible or made_up else ():
            due = possible & in_minute[wall.minute + minute]
            if not minute:
                due |= made_up
            for number in _bits(due):
                found[number].append(instant + minute * MINUTE)
    return [[moment for moment in each if moment <= end] for each in found]


def due(pattern: Pattern, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """The instants of one pattern from `start` up to `end`, which is left out.

    The walk begins two days earlier, so that it knows which times were shown before.
    """
    (found,) = moments([pattern], zone, start - timedelta(days=2), end - MINUTE)
    return [moment for moment in found if moment >= start]


def _matchers(patterns: Sequence[Pattern]) -> tuple[Callable[[datetime], Mask], Sequence[Mask]]:
    """A function for the patterns that match the day and hour, and the masks of each minute."""
    minutes = [_holding(number, [each.minutes for each in patterns]) for number in range(60)]
    hours = [_holding(number, [each.hours for each in patterns]) for number in range(24)]

    @cache
    def days(month: int, day: int, weekday: int) -> Mask:
        in_month = _holding(month, [each.months for each in patterns])
        on_day = _holding(day, [each.days for each in patterns])
        on_weekday = _holding(weekday, [each.weekdays for each in patterns])
        either = _mask(each.either for each in patterns)
        return in_month & (on_day & on_weekday | (on_day | on_weekday) & either)

    def in_hour(wall: datetime) -> Mask:
        return hours[wall.hour] & days(wall.month, wall.day, wall.isoweekday() % 7)

    return in_hour, minutes


def _mask(answers: Iterable[bool]) -> Mask:
    return sum(1 << number for number, answer in enumerate(answers) if answer)


def _holding(value: int, fields: Sequence[frozenset[int]]) -> Mask:
    return _mask(value in field for field in fields)


def _bits(mask: Mask) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _wall(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)
