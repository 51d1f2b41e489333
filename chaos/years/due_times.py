"""The due times of cron lines, found by looking at the clock of the zone for every minute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

from tests.domain import schedule_oracle
from tests.domain.cron_lines import Line
from tests.domain.cron_oracle import MINUTE, Pattern
from tests.domain.test_schedule_year import any_line, moments_a_year

NEW_YORK = ZoneInfo("America/New_York")
BERLIN = ZoneInfo("Europe/Berlin")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
ZONES = (NEW_YORK, BERLIN, LORD_HOWE)

_DAYS, _MONTHS, _WEEKDAYS = (frozenset(one) for one in (range(1, 32), range(1, 13), range(7)))
_RANDOM_LINES = 8
_FEWEST_A_YEAR, _MOST_A_YEAR = 40, 200
_HOUR = timedelta(hours=1)


def _line(text: str, minute: int, hours: Iterable[int], days: Iterable[int] = _DAYS) -> Line:
    pattern = Pattern(
        frozenset([minute]), frozenset(hours), frozenset(days), _MONTHS, _WEEKDAYS, either=False
    )
    return Line(text, pattern)


# In the hour that a clock change skips or repeats, shortly before it, through the day, and hourly.
_FIXED_LINES = (
    _line("30 2 * * *", 30, [2]),
    _line("45 1 * * *", 45, [1]),
    _line("0 9 * * *", 0, [9]),
    _line("15 8,12,18 * * *", 15, [8, 12, 18]),
    _line("30 */6 * * *", 30, [0, 6, 12, 18]),
    _line("20 * 1-8 * *", 20, range(24), range(1, 9)),
)


class CronTimetable:
    """The due times of some fixed and some random cron lines, in each of the zones."""

    def __init__(self, rng: Random, start: datetime, end: datetime) -> None:
        self.lines = [*_FIXED_LINES, *(_random_line(rng) for _ in range(_RANDOM_LINES))]
        patterns = [line.pattern for line in self.lines]
        self._due_times: Mapping[ZoneInfo, Sequence[Sequence[datetime]]] = {
            zone: schedule_oracle.moments(patterns, zone, start, end) for zone in ZONES
        }

    def due_times(self, line: int, zone: ZoneInfo) -> Sequence[datetime]:
        return self._due_times[zone][line]


def _random_line(rng: Random) -> Line:
    while True:
        line = any_line(rng)
        if _FEWEST_A_YEAR < moments_a_year(line) <= _MOST_A_YEAR:
            return line


def utc_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """The instant of a wall time: the first of two, or the end of the gap if it is skipped."""
    while True:
        found = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
        if found.astimezone(zone).replace(tzinfo=None) == wall:
            return found
        wall += MINUTE


def clock_changes(start: datetime, end: datetime) -> list[datetime]:
    """The hours in which the clock changes in one of the zones, for summer time or back."""
    found = []
    for zone in ZONES:
        at = start
        while at < end:
            if at.astimezone(zone).utcoffset() != (at + _HOUR).astimezone(zone).utcoffset():
                found.append(at)
            at += _HOUR
    return sorted(found)
