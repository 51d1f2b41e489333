"""What becomes of routines while the owner travels, edits them and switches the bot off.

It looks at one day after another, and at the clock of each zone. It uses no code under test.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from chaos.years.due_times import utc_instant
from tests.kernel.values.test_repeats import matches

FIRST, LAST = date(2026, 1, 1), date(2027, 12, 31)
DAY = timedelta(days=1)

# How an occurrence ended, and the reason of a skip.
End = tuple[str, str | None]
Due = tuple[datetime, datetime]

_SUPERSEDED: End = ("skipped", "superseded")
_REPEATED: End = ("skipped", "policy")


def wall_of(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None)


@dataclass(frozen=True)
class Version:
    """One content of a routine's file; `is_run_late` if a missed moment of it still runs."""

    rule: str
    clocks: tuple[time, ...]
    start: date
    until: date | None = None
    times: int | None = None
    is_run_late: bool = False

    @property
    def fields(self) -> dict[str, object]:
        """The fields of the file."""
        ends = {"until": self.until and str(self.until), "times": self.times}
        return {
            "every": self.rule,
            "at": [f"{clock:%H:%M}" for clock in self.clocks],
            "from": str(self.start),
            **{name: value for name, value in ends.items() if value is not None},
            "late": "run" if self.is_run_late else "tell",
            "background": True,
            "allow-ping": False,
        }

    def between(self, zone: ZoneInfo, after: datetime, until: datetime) -> list[Due]:
        """The instants later than `after`, with what the clock shows, up to `until`."""
        dues = _dues(self, zone)
        first, last = (bisect_right(dues, at, key=lambda due: due[0]) for at in (after, until))
        return [*dues[first:last]]

    def walls_between(self, after: datetime, until: datetime) -> set[datetime]:
        walls = _walls(self)
        first, last = (bisect_right(walls, at) for at in (after, until))
        return {*walls[first:last]}


@cache
def _walls(version: Version) -> Sequence[datetime]:
    return [*_walked(version)]


def _walked(version: Version) -> Iterator[datetime]:
    day, count = version.start, 0
    while day <= (version.until or LAST + 3 * DAY):
        for at in version.clocks if matches(version.rule, version.start, day) else ():
            count += 1
            if version.times is None or count <= version.times:
                yield datetime.combine(day, at)
        day += DAY


@cache
def _dues(version: Version, zone: ZoneInfo) -> Sequence[Due]:
    known = (wall for wall in _walls(version) if wall.date() >= FIRST - 2 * DAY)
    # Two times of day that are skipped together are due once.
    return sorted({utc_instant(wall, zone): wall for wall in known}.items())


@dataclass
class Life:
    """One routine: what its clock has shown of it, and how each of its occurrences must end."""

    name: str
    version: Version
    ends: dict[str, End] = field(default_factory=dict)
    _came: set[datetime] = field(default_factory=set)

    def watch(self, zone: ZoneInfo, start: datetime, end: datetime) -> None:
        """Each moment comes, unless the owner has lived through it already."""
        for at, wall in self.version.between(zone, start, end):
            self._end(at, _REPEATED if wall in self._came else ("done", None))
            self._came.add(wall)

    def be_away(self, zone: ZoneInfo, start: datetime, end: datetime) -> None:
        self._catch_up(self.version.between(zone, start, end))

    def move(self, before: ZoneInfo, after: ZoneInfo, at: datetime, now: datetime) -> None:
        """From `at` on, the other clock counts, of which the bot knows `now`."""
        old, new = wall_of(at, before), wall_of(at, after)
        days = round((new - old) / DAY) * DAY
        if days and self._is_daily(min(old, new), max(old, new)):
            # What came less than half a day ago counts for the day that the new clock shows.
            old += days
            self._came = {wall + days for wall in self._came}
        dues = self.version.between(after, at - 3 * DAY, now)
        self._catch_up([(due, wall) for due, wall in dues if due > at or wall > old])

    def _is_daily(self, first: datetime, last: datetime) -> bool:
        earlier = self.version.walls_between(first - DAY, last)
        return {wall + DAY for wall in earlier} == self.version.walls_between(first, last + DAY)

    def _catch_up(self, missed: Sequence[Due]) -> None:
        for number, (at, wall) in enumerate(missed, 1):
            if number < len(missed):
                self._end(at, _SUPERSEDED)
            elif wall in self._came:
                self._end(at, _REPEATED)
            else:
                self._end(at, ("done" if self.version.is_run_late else "missed", None))
            self._came.add(wall)

    def _end(self, at: datetime, end: End) -> None:
        """What has ended keeps its end."""
        self.ends.setdefault(f"routine:{self.name}:{at:%Y-%m-%dT%H:%M:%SZ}", end)
