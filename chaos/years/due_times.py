"""The due times of routines, found by looking at the clock of the zone for every minute or day."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from random import Random
from zoneinfo import ZoneInfo

from tests.kernel.values import cron_oracle
from tests.kernel.values.cron_lines import Line, any_line, moments_a_year
from tests.kernel.values.cron_oracle import MINUTE, Pattern
from tests.kernel.values.test_repeats import matches

NEW_YORK = ZoneInfo("America/New_York")
BERLIN = ZoneInfo("Europe/Berlin")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
ZONES = (NEW_YORK, BERLIN, LORD_HOWE)

_DAYS, _MONTHS, _WEEKDAYS = (frozenset(one) for one in (range(1, 32), range(1, 13), range(7)))
_RANDOM_LINES = 8
_FEWEST_A_YEAR, _MOST_A_YEAR = 40, 200
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


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


@dataclass(frozen=True)
class RepeatLine:
    """A repeat beyond cron, which counts its days from `start`."""

    rule: str
    clocks: tuple[time, ...]
    start: date
    until: date | None = None
    times: int | None = None

    @property
    def fields(self) -> dict[str, object]:
        """The fields of the file."""
        at = ", ".join(f'"{clock:%H:%M}"' for clock in self.clocks)
        ends = {"until": self.until, "times": self.times}
        known = {name: value for name, value in ends.items() if value is not None}
        return {"every": self.rule, "at": f"[{at}]", "from": self.start, **known}

    def walls(self, last: date) -> Iterator[datetime]:
        """What the clock shows at its moments, by a look at each day."""
        day, left = self.start, self.times
        while day <= min(last, self.until or last):
            for clock in self.clocks if matches(self.rule, self.start, day) else ():
                if left == 0:
                    return
                left = None if left is None else left - 1
                yield datetime.combine(day, clock)
            day += _DAY


def _repeat_lines(first: date) -> Iterator[RepeatLine]:
    """Counted days, weeks and months, days of a month, and some that end."""
    nine, early, evening = time(9), time(2, 30), time(21, 5)
    yield RepeatLine("1 day", (early, evening), first, until=first + 150 * _DAY)
    yield RepeatLine("2 days", (nine,), first - 30 * _DAY)
    yield RepeatLine("3 days", (time(1, 45), time(18)), first, times=60)
    yield RepeatLine("1 week", (time(18),), first)
    yield RepeatLine("2 weeks", (nine, evening), first - _DAY)
    yield RepeatLine("1 month", (early,), first.replace(year=first.year - 1, month=12, day=31))
    yield RepeatLine("last day of the month", (nine,), first)
    yield RepeatLine("first monday of the month", (time(0), time(23, 59)), first)
    yield RepeatLine("last friday of the month", (evening,), first, times=9)


class Timetable:
    """The due times of fixed and random cron lines, and of repeats, in each of the zones."""

    def __init__(self, rng: Random, start: datetime, end: datetime) -> None:
        crons = [*_FIXED_LINES, *(_random_line(rng) for _ in range(_RANDOM_LINES))]
        repeats = [*_repeat_lines(start.date())]
        self.fields: Sequence[Mapping[str, object]] = [
            *({"cron": f'"{line.text}"'} for line in crons),
            *(line.fields for line in repeats),
        ]
        patterns = [line.pattern for line in crons]
        self._due_times: Mapping[ZoneInfo, Sequence[Sequence[datetime]]] = {
            zone: [
                *cron_oracle.moments(patterns, zone, start, end),
                *(_due_times(line, zone, end.date()) for line in repeats),
            ]
            for zone in ZONES
        }

    def due_times(self, line: int, zone: ZoneInfo) -> Sequence[datetime]:
        return self._due_times[zone][line]


def _due_times(line: RepeatLine, zone: ZoneInfo, last: date) -> Sequence[datetime]:
    return sorted({utc_instant(wall, zone) for wall in line.walls(last)})


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
