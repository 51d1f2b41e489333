"""Which jobs name a time that a change of the clocks leaves out, or brings twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from ollim_bot.domain.jobs import Routine
from ollim_bot.domain.moments import clock_change, instant, offset_at
from ollim_bot.domain.rehearsal.coming import Timing
from ollim_bot.domain.schedule import ScheduledJob

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Oddity:
    """`wall` is what the clocks show never, or twice; it comes at `at`."""

    job: ScheduledJob
    wall: datetime
    at: datetime
    is_twice: bool


@dataclass(frozen=True, slots=True)
class _Change:
    """The times of the wall from `low` on and before `high` are odd."""

    low: datetime
    high: datetime
    is_twice: bool


def oddities(
    alike: Mapping[Timing, Sequence[ScheduledJob]], start: datetime, end: datetime
) -> Iterator[Oddity]:
    """Those after `start` and by `end`. Who follows real time has none."""
    changes: dict[tzinfo, list[_Change]] = {}
    for (_, zone), same in alike.items():
        if zone not in changes:
            changes[zone] = [*_changes(zone, start.astimezone(UTC), end.astimezone(UTC))]
        for change in changes[zone]:
            wall = _odd_wall(same[0], change)
            at = None if wall is None else instant(wall, zone).astimezone(UTC)
            if wall is not None and at is not None and start < at <= end:
                yield from (Oddity(job, wall, at, change.is_twice) for job in same)


def _changes(zone: tzinfo, start: datetime, end: datetime) -> Iterator[_Change]:
    while start < end:
        day = min(start + _DAY, end)
        before, after = offset_at(start, zone), offset_at(day, zone)
        if before != after:
            at = clock_change(start, day, zone).replace(tzinfo=None)
            low, high = sorted((at + before, at + after))
            yield _Change(low, high, is_twice=after < before)
        start = day


def _odd_wall(job: ScheduledJob, change: _Change) -> datetime | None:
    if not isinstance(job, Routine):
        wall = job.run_at
        return wall if wall.tzinfo is None and change.low <= wall < change.high else None
    if job.cron.follows_real_time:
        return None
    # Where the clocks never change, all times of the wall exist once.
    low, high = (wall.replace(tzinfo=UTC) for wall in (change.low, change.high))
    first = next(job.cron.between(low, high, UTC), None)
    return None if first is None else first.replace(tzinfo=None)
