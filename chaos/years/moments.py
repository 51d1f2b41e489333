"""When jobs are due, found out by watching the clocks of their zones for every minute."""

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
_LINES = 8
_MOST_A_YEAR = 200
_EXAMPLES = 40
_A_NIGHT = timedelta(hours=1)


def _line(text: str, minute: int, hours: Iterable[int], days: Iterable[int] = _DAYS) -> Line:
    pattern = Pattern(
        frozenset([minute]), frozenset(hours), frozenset(days), _MONTHS, _WEEKDAYS, either=False
    )
    return Line(text, pattern)


# In the hour that is left out or comes twice, at the edge of it, through the day, and each hour.
_USUAL = (
    _line("30 2 * * *", 30, [2]),
    _line("45 1 * * *", 45, [1]),
    _line("0 9 * * *", 0, [9]),
    _line("15 8,12,18 * * *", 15, [8, 12, 18]),
    _line("30 */6 * * *", 30, [0, 6, 12, 18]),
    _line("20 * 1-8 * *", 20, range(24), range(1, 9)),
)


class Calendar:
    """All moments of some cron lines in each of the zones."""

    def __init__(self, luck: Random, start: datetime, end: datetime) -> None:
        self.lines = [*_USUAL, *(_a_line(luck) for _ in range(_LINES))]
        patterns = [line.pattern for line in self.lines]
        self._moments: Mapping[ZoneInfo, Sequence[Sequence[datetime]]] = {
            zone: schedule_oracle.moments(patterns, zone, start, end) for zone in ZONES
        }

    def moments(self, line: int, zone: ZoneInfo) -> Sequence[datetime]:
        return self._moments[zone][line]


def _a_line(luck: Random) -> Line:
    while True:
        line = any_line(luck)
        if _EXAMPLES < moments_a_year(line) <= _MOST_A_YEAR:
            return line


def instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """Of a time on the wall: the first of two, and the end of the gap for one that is left out."""
    while True:
        found = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
        if found.astimezone(zone).replace(tzinfo=None) == wall:
            return found
        wall += MINUTE


def nights(start: datetime, end: datetime) -> list[datetime]:
    """When the clocks change in one of the zones."""
    found = []
    for zone in ZONES:
        at = start
        while at < end:
            if at.astimezone(zone).utcoffset() != (at + _A_NIGHT).astimezone(zone).utcoffset():
                found.append(at)
            at += _A_NIGHT
    return sorted(found)
