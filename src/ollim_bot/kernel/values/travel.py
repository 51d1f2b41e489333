"""What becomes of jobs when the owner's time zone changes.

Jobs without a zone of their own follow the new clock. A time of day comes once: one that came by
the old clock does not come again by the new one, and one that the new clock jumps over is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.base.moments import (
    clock_time,
    describe,
    instant,
    offset_at,
    short_clock,
    zone_named,
)
from ollim_bot.kernel.values.jobs import Job, Reminder, Routine
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.repeats import AfterDone
from ollim_bot.kernel.values.schedule import (
    ScheduledJob,
    key_of,
    last_due,
    moments_between,
    next_due,
    occurrence_at,
)

_DAY = timedelta(days=1)
# A routine that comes so many times a day is a rhythm, and its single times mean little.
_RHYTHM = 6
_LARGEST_CHANGE = timedelta(hours=3)
# Two zones are up to 26 hours apart.
_LIVED = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class PlannedZone:
    """The name of the zone in which the schedule is planned; empty before the first start."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class ZoneMove:
    """A change of the zone: `before` counts for all that is due until `at`, `after` from then on.

    Times of day are compared on the nearest day, so that the clock moves by at most 12 hours:
    across the date line, 10:00 in Los Angeles is followed by 7:00 in Auckland on any date. Where a
    routine does not come on each of those days, its dates are compared.

    `came` are the reminders that came by the old clock: the new one does not count for them.
    """

    at: datetime
    before: tzinfo
    after: tzinfo
    came: Set[JobKey] = frozenset()

    @property
    def _old_wall(self) -> datetime:
        return self.at.astimezone(self.before).replace(tzinfo=None)

    @property
    def _new_wall(self) -> datetime:
        return self.at.astimezone(self.after).replace(tzinfo=None)

    def days(self, job: Job) -> timedelta:
        """The whole days that are left out of the comparison."""
        days = round((self._new_wall - self._old_wall) / _DAY) * _DAY
        return days if days and self._is_daily(job) else timedelta()

    def _is_daily(self, job: Job) -> bool:
        """Whether a routine comes at the same times on all days between the two clocks."""
        if not isinstance(job, Routine):
            return True
        if isinstance(job.rhythm, AfterDone):
            return False
        first, last = sorted([self._old_wall, self._new_wall])
        earlier = {wall + _DAY for wall in job.rhythm.walls(first - _DAY, last)}
        return earlier == {*job.rhythm.walls(first, last + _DAY)}

    def jumped_since(self, job: Job) -> datetime:
        """The instant from which moments of the job are jumped over; `at` if none can be."""
        old = self._old_wall + self.days(job)
        if not self.may_jump(job) or self._new_wall <= old:
            return self.at.astimezone(UTC)
        return instant(old, self.after).astimezone(UTC)

    def repetitions(self, routine: Routine, until: datetime) -> Iterator[tuple[datetime, datetime]]:
        """The moments, also those jumped over, whose times of day the old clock showed by `until`.

        Each comes with the earlier moment at which the old clock showed it.
        """
        since = self.jumped_since(routine)
        return ((new, old) for new, old in self.lived(routine, until) if since < new)

    def lived(self, routine: Routine, until: datetime) -> Iterator[tuple[datetime, datetime]]:
        """As `repetitions`, with the moments of two days that the new clock shows no more.

        A further move may put the clock back to them.
        """
        if not self.moves(routine) or is_rhythm(routine, self):
            return
        days = self.days(routine)
        old_wall = self._old_wall + days
        # A clock that is put back shows a later time before an earlier one.
        last = old_wall + (until - self.at) + _LARGEST_CHANGE
        for wall in routine.rhythm.walls(old_wall - _LIVED, last):
            old = instant(wall - days, self.before).astimezone(UTC)
            if old <= until:
                yield instant(wall, self.after).astimezone(UTC), old

    def shown_again(self, routine: Routine, moments: Iterable[datetime]) -> Iterator[datetime]:
        """When the new clock shows what the old one would repeat, or would have repeated."""
        for moment in moments:
            wall = moment.astimezone(self.before).replace(tzinfo=None) + self.days(routine)
            new = instant(wall, self.after).astimezone(UTC)
            if new > self.at - _LIVED:
                yield new

    def moves(self, job: Job) -> bool:
        """Whether the job is due by the new clock now."""
        return follows_zone(job) and key_of(job) not in self.came

    def may_jump(self, job: Job) -> bool:
        """Whether a moment of the job that the new clock jumps over is missed.

        No moment of what must come is passed over because there are many of them.
        """
        if not self.moves(job) or not isinstance(job, Routine):
            return self.moves(job)
        return not is_rhythm(job, self) or (job.must and not job.rhythm.follows_real_time)

    def moved(self, moment: datetime) -> datetime:
        """The instant at which the new clock shows what the old one shows at `moment`."""
        wall = moment.astimezone(self.before).replace(tzinfo=None)
        return instant(wall, self.after).astimezone(UTC)


def follows_zone(job: Job) -> bool:
    """Whether the job is due by the owner's clock."""
    if job.spec.timezone is not None:
        return False
    return isinstance(job, Routine) or (isinstance(job, Reminder) and job.run_at.tzinfo is None)


def is_rhythm(routine: Routine, move: ZoneMove) -> bool:
    """Whether it comes so often that it goes on by the new clock, as if nothing had happened."""
    if routine.rhythm.follows_real_time:
        return True
    day = moments_between(routine, move.at - _DAY, move.at, move.before, limit=_RHYTHM)
    return len([*day]) == _RHYTHM


_MOST_TOLD = 5


def zone_answer(
    jobs: Sequence[ScheduledJob],
    now: datetime,
    chosen: str | None,
    default: tzinfo,
    has_come: Callable[[Occurrence], bool],
) -> str:
    """What the owner is told after a change of the setting `timezone`, with what moves.

    `now` is in the zone before it. `has_come` says whether an occurrence was claimed in that zone.
    """
    before = now.tzinfo or UTC
    after = (zone_named(chosen) if chosen else None) or default
    name = str(after) if chosen else f"{after}, its default"
    if str(before) == str(after):
        return f"timezone is {name} already."
    at = now.astimezone(UTC)
    reminders = (job for job in jobs if isinstance(job, Reminder))
    due = (key_of(job) for job in reminders if job.due(before).astimezone(UTC) <= at)
    move = ZoneMove(at, before, after, frozenset(due))
    return f"timezone is now {name} (it was {before}). {_in_words(jobs, move, has_come)}"


def _in_words(
    jobs: Iterable[ScheduledJob], move: ZoneMove, has_come: Callable[[Occurrence], bool]
) -> str:
    """What comes next by the new clock, what does not come again, and what is jumped over."""
    now = move.at.astimezone(move.after)
    there = f"It is {short_clock(now)} there."
    year = (move.at + month * 30 * _DAY for month in range(13))
    if all(offset_at(each, move.before) == offset_at(each, move.after) for each in year):
        return f"{there} That is the same as before, so nothing moves."
    moved = [job for job in jobs if job.spec.enabled and move.moves(job)]
    lines = [there, *_next_lines(moved, move, has_come, now)]
    times = ((job, [new for new, _ in _repeated(job, move, has_come)]) for job in moved)
    if repeated := _named(
        f"{job.spec.short_title} ({clock_time(found[-1].astimezone(move.after))})"
        for job, found in times
        if found
    ):
        lines.append(f"Not again by the new clock, because it came already: {repeated}.")
    last = ((job, last_due(job, now, move.after)) for job in moved if move.may_jump(job))
    if jumped := _named(
        f"{job.spec.short_title} ({describe(moment, now)})"
        for job, moment in last
        if moment is not None and (isinstance(job, Reminder) or moment > move.jumped_since(job))
    ):
        lines.append(f"Jumped over, so it comes late or is told as missed: {jumped}.")
    return "\n".join(lines)


def _next_lines(
    jobs: Iterable[ScheduledJob],
    move: ZoneMove,
    has_come: Callable[[Occurrence], bool],
    now: datetime,
) -> Iterator[str]:
    found: list[tuple[datetime, ScheduledJob]] = []
    for job in jobs:
        new = _next_new(job, {new for new, _ in _repeated(job, move, has_come)}, move)
        if new is not None:
            found.append((new, job))
    found.sort(key=lambda each: each[0])
    if found:
        yield "Next by the new clock:"
    for new, job in found[:_MOST_TOLD]:
        old = next_due(job, move.at, move.before)
        before = "" if old is None else f" (it would have come {describe(old, now)})"
        yield f"- {job.spec.short_title}: {describe(new, now)}{before}"
    if len(found) > _MOST_TOLD:
        yield f"- and {len(found) - _MOST_TOLD} more"


def _next_new(job: ScheduledJob, again: Set[datetime], move: ZoneMove) -> datetime | None:
    """The next moment by the new clock, without those that came already."""
    new = next_due(job, move.at, move.after)
    while new is not None and new in again:
        new = next_due(job, new, move.after)
    return new


def _repeated(
    job: ScheduledJob, move: ZoneMove, has_come: Callable[[Occurrence], bool]
) -> list[tuple[datetime, datetime]]:
    found = move.repetitions(job, move.at) if isinstance(job, Routine) else ()
    return [each for each in found if has_come(occurrence_at(job, each[1]))]


def _named(names: Iterable[str]) -> str:
    found = [*names]
    more = [f"and {len(found) - _MOST_TOLD} more"] if len(found) > _MOST_TOLD else []
    return ", ".join([*found[:_MOST_TOLD], *more])
