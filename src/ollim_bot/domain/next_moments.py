"""Keeps the next moment of each of very many jobs, so that a look at the day costs little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

from ollim_bot.domain.schedule import ScheduledJob, count_between, day_of, moments_of_day, next_due

_NEVER = datetime.max.replace(tzinfo=UTC)


class NextMoment(NamedTuple):
    """The next moment of a job, and the `others` that follow it before `end`.

    Of a job that comes too often for a line each, only their number is known: `more`.
    """

    job: ScheduledJob
    moment: datetime | None
    end: datetime
    more: int | None = None
    others: Sequence[datetime] = ()

    def holds(self, now: datetime, end: datetime) -> bool:
        """Whether it is as true at `now`, which is not earlier, for the time before `end`."""
        if self.moment is None:
            return True
        return self.moment > now and (self.moment >= end or self.end == end)


class DayMoment(NamedTuple):
    """A moment of a job; `is_next` says whether it is the first to come.

    Of a job that comes too often for a line each there is only the first, with how many `more`
    follow.
    """

    job: ScheduledJob
    moment: datetime
    is_next: bool
    more: int | None


class _Look(NamedTuple):
    """What was known at `now`: the next moment of each job, and all before `end` in order.

    `found` is by the identity of the job, which it keeps alive; `until` is the first moment of all.
    """

    jobs: Sequence[ScheduledJob]
    now: datetime
    end: datetime
    until: datetime
    zone: tzinfo
    found: Mapping[int, NextMoment]
    coming: Sequence[DayMoment]


class NextMoments:
    """Computes the moment of a job again once it is over or the job is another.

    Threads may share it: a look replaces what is known as a whole.
    """

    def __init__(self) -> None:
        self._last: _Look | None = None

    def before(
        self, end: datetime, jobs: Sequence[ScheduledJob], now: datetime
    ) -> Sequence[DayMoment]:
        """What comes after `now` and before `end`, the end of its day, by time.

        It costs nothing while `jobs` is the same object and no moment is over.
        """
        zone, now, end = now.tzinfo or UTC, now.astimezone(UTC), end.astimezone(UTC)
        last = self._last
        if last is not None and (last.zone != zone or now < last.now):
            last = None
        if last is None or last.jobs is not jobs or last.end != end or last.until <= now:
            known = {} if last is None else last.found
            last = self._last = _look(jobs, now, end, zone, known)
        return last.coming


def _look(
    jobs: Sequence[ScheduledJob],
    now: datetime,
    end: datetime,
    zone: tzinfo,
    known: Mapping[int, NextMoment],
) -> _Look:
    found: dict[int, NextMoment] = {}
    day = day_of(end - datetime.resolution, zone)
    for job in jobs:
        kept = known.get(id(job))
        is_kept = kept is not None and kept.holds(now, end)
        found[id(job)] = kept if kept is not None and is_kept else _next(job, now, day, zone)
    moments = [(each.moment, each) for each in found.values() if each.moment is not None]
    coming = [
        DayMoment(each.job, at, at is moment, each.more)
        for moment, each in moments
        if moment < end
        for at in (moment, *each.others)
    ]
    coming.sort(key=lambda each: each.moment)
    until = min((moment for moment, _ in moments), default=_NEVER)
    return _Look(jobs, now, end, until, zone, found, coming)


def _next(
    job: ScheduledJob, now: datetime, day: tuple[datetime, datetime], zone: tzinfo
) -> NextMoment:
    moment, (_, end) = next_due(job, now, zone), day
    if moment is None or moment >= end:
        return NextMoment(job, moment, end)
    whole_day = moments_of_day(job, day, zone)
    if whole_day is None:
        more = count_between(job, moment, end - datetime.resolution, zone)
        return NextMoment(job, moment, end, more)
    return NextMoment(job, moment, end, others=[each for each in whole_day if each > moment])
