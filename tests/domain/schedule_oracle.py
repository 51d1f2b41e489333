"""What a year of a zone's clock brings due, found out by watching it for every minute.

It knows nothing of the code under test, and reads no text. All patterns are watched for at once:
bit n of a mask stands for pattern n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from zoneinfo import ZoneInfo

from tests.domain.cron_oracle import MINUTE, Pattern

Mask = int


def watched(
    zone: ZoneInfo, start: datetime, end: datetime
) -> Iterator[tuple[datetime, datetime, list[datetime], bool]]:
    """Each minute: what the clock shows, what it left out, whether it has shown that before."""
    instant, latest = start, _wall(start, zone) - MINUTE
    while instant <= end:
        wall = _wall(instant, zone)
        skipped = []
        while latest + MINUTE < wall:
            latest += MINUTE
            skipped.append(latest)
        yield instant, wall, skipped, wall <= latest
        latest = max(latest, wall)
        instant += MINUTE


def moments(
    patterns: Sequence[Pattern], zone: ZoneInfo, start: datetime, end: datetime
) -> list[list[datetime]]:
    """For each pattern its instants from `start` to `end`, both whole minutes in UTC."""
    found: list[list[datetime]] = [[] for _ in patterns]
    matching = _matcher(patterns)
    hourly = _mask(len(pattern.hours) == 24 for pattern in patterns)
    for instant, wall, skipped, shown_before in watched(zone, start, end):
        due = matching(wall)
        for left_out in skipped:
            due |= matching(left_out) & ~hourly
        if shown_before:
            due &= hourly
        for number in _bits(due):
            found[number].append(instant)
    return found


def _matcher(patterns: Sequence[Pattern]) -> Callable[[datetime], Mask]:
    minutes = [_holding(number, [each.minutes for each in patterns]) for number in range(60)]
    hours = [_holding(number, [each.hours for each in patterns]) for number in range(24)]

    @cache
    def days(month: int, day: int, weekday: int) -> Mask:
        in_month = _holding(month, [each.months for each in patterns])
        on_day = _holding(day, [each.days for each in patterns])
        on_weekday = _holding(weekday, [each.weekdays for each in patterns])
        either = _mask(each.either for each in patterns)
        return in_month & (on_day & on_weekday | (on_day | on_weekday) & either)

    def matching(wall: datetime) -> Mask:
        by_time = minutes[wall.minute] & hours[wall.hour]
        return by_time and by_time & days(wall.month, wall.day, wall.isoweekday() % 7)

    return matching


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
