"""Cron lines, and the moments at which they are due."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import takewhile

from cronsim import CronSim, CronSimError

from ollim_bot.domain.cron_text import normalised
from ollim_bot.domain.cron_words import in_words
from ollim_bot.domain.moments import clock_change, instant, offset_at
from ollim_bot.errors import BadCron

_SOME_DAY = datetime(2000, 1, 1)
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
# Only with these can a line match no day at all unnoticed by cronsim: `0 0 */31 * mon#5`.
_EXTENSIONS = frozenset("L#")
# Many jobs share few lines; to read one takes longer than to read the rest of its file.
_LINES_REMEMBERED = 512


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron line. It is due at the wall-clock times of a zone that its five fields match.

    A time that a change of the clocks leaves out is due once, at the end of the gap; a time that
    comes twice is due the first time only. A line that matches every hour of the day follows real
    time instead: it is due at each instant at which the clocks show a matching time.

    Its methods take instants, and return instants in `zone`.
    """

    text: str
    _spec: str = field(repr=False, compare=False)
    _matches_every_hour: bool = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> Cron:
        """Raises `BadCron`."""
        return cls(*_read(text))

    def __str__(self) -> str:
        return self.text

    @property
    def follows_real_time(self) -> bool:
        """Whether a change of the clocks neither moves nor merges its moments."""
        return self._matches_every_hour

    def explain(self) -> str:
        """`At 08:30 on Monday through Friday`."""
        return in_words(_walls(self._spec, _SOME_DAY))

    def next(self, after: datetime, zone: tzinfo) -> datetime:
        """The first moment later than `after`."""
        return next(self._from(after.astimezone(UTC) + datetime.resolution, zone))

    def previous(self, before: datetime, zone: tzinfo) -> datetime:
        """The last moment earlier than `before`."""
        find = self._last_in_real_time if self._matches_every_hour else self._last_by_the_wall
        return find(_rounded_up(before), zone).astimezone(zone)

    def between(self, start: datetime, end: datetime, zone: tzinfo) -> Iterator[datetime]:
        """The moments from `start` on and earlier than `end`, in order."""
        limit = end.astimezone(UTC)
        return takewhile(lambda moment: moment.astimezone(UTC) < limit, self._from(start, zone))

    def _from(self, start: datetime, zone: tzinfo) -> Iterator[datetime]:
        walk = self._in_real_time if self._matches_every_hour else self._by_the_wall
        return (moment.astimezone(zone) for moment in walk(_rounded_up(start), zone))

    def _by_the_wall(self, start: datetime, zone: tzinfo) -> Iterator[datetime]:
        last = start - _SECOND
        for wall in _walls(self._spec, _shown(last, offset_at(last, zone))):
            moment = instant(wall, zone).astimezone(UTC)
            if moment >= start:
                start = moment + _SECOND
                yield moment

    def _last_by_the_wall(self, end: datetime, zone: tzinfo) -> datetime:
        # While the clocks show an hour for the second time, the whole of the first time is
        # earlier: start from what they would show had they not been put back.
        unchanged = end.astimezone(zone).replace(fold=0).utcoffset() or timedelta()
        walls = CronSim(self._spec, _shown(end, unchanged), reverse=True)
        moments = (instant(wall, zone).astimezone(UTC) for wall in walls)
        return next(moment for moment in moments if moment < end)

    # Real time is walked by stretches of one offset, in each of which it runs as evenly as a wall
    # clock: up to a change of the clocks, or for a day, and then on to a day short of a match.

    def _in_real_time(self, start: datetime, zone: tzinfo) -> Iterator[datetime]:
        while True:
            offset, end = offset_at(start, zone), start + _DAY
            changed = offset_at(end, zone) != offset
            end = clock_change(start, end, zone) if changed else end
            for wall in _walls(self._spec, _shown(start - _SECOND, offset)):
                moment = _instant(wall, offset)
                if moment >= end:
                    break
                yield moment
            start = end if changed else max(end, moment - _DAY)

    def _last_in_real_time(self, end: datetime, zone: tzinfo) -> datetime:
        while True:
            last, start = end - _SECOND, end - _DAY
            offset = offset_at(last, zone)
            changed = offset_at(start, zone) != offset
            start = clock_change(start, last, zone) if changed else start
            wall = next(CronSim(self._spec, _shown(end, offset), reverse=True))
            moment = _instant(wall, offset)
            if moment >= start:
                return moment
            end = start if changed else min(start, moment + _DAY)


class _Walls(CronSim):
    """Matching wall-clock times, found without a step for each hour in between."""

    def advance_hour(self) -> bool:
        now = self.dt
        if now.hour in self.hours:
            return False
        hour = min((hour for hour in self.hours if hour > now.hour), default=24)
        self.dt = datetime(now.year, now.month, now.day) + timedelta(hours=hour)
        return True


@lru_cache(_LINES_REMEMBERED)
def _read(text: str) -> tuple[str, str, bool]:
    spec, line = normalised(text), " ".join(text.split())
    try:
        simulation = CronSim(spec, _SOME_DAY)
        if _EXTENSIONS.intersection(spec):
            next(simulation)
    except (CronSimError, StopIteration):
        raise BadCron(text, f"`{line}` would never run: no year has such a day") from None
    return line, spec, len(simulation.hours) == 24


def _walls(spec: str, start: datetime) -> _Walls:
    """Those later than `start`, which is a whole second."""
    walls = copy(_pattern(spec))
    walls.dt = start
    return walls


@lru_cache(_LINES_REMEMBERED)
def _pattern(spec: str) -> _Walls:
    """Not to be walked itself: what walks is a copy."""
    return _Walls(spec, _SOME_DAY)


def _shown(moment: datetime, offset: timedelta) -> datetime:
    return moment.replace(tzinfo=None) + offset


def _instant(wall: datetime, offset: timedelta) -> datetime:
    return (wall - offset).replace(tzinfo=UTC)


def _rounded_up(moment: datetime) -> datetime:
    return (moment.astimezone(UTC) + _SECOND - datetime.resolution).replace(microsecond=0)
