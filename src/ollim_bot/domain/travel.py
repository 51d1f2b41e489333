"""What becomes of jobs when the owner's time zone changes.

Jobs without a zone of their own follow the new clock. A time of day comes once: one that came by
the old clock does not come again by the new one, and one that the new clock jumps over is missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from ollim_bot.domain.jobs import Job, Reminder, Routine
from ollim_bot.domain.moments import instant
from ollim_bot.domain.schedule import JobKey, key_of, moments_between

_DAY = timedelta(days=1)
# A routine that comes so many times a day is a rhythm, and its single times mean little.
_RHYTHM = 6


@dataclass(frozen=True, slots=True)
class PlannedZone:
    """The name of the zone in which the schedule is planned; empty before the first start."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class ZoneMove:
    """A change of the zone: `before` counts for all that is due until `at`, `after` from then on.

    Times of day are compared on the nearest day, so that the clock moves by at most 12 hours:
    across the date line, 10:00 in Los Angeles is followed by 7:00 in Auckland on any date.

    `came` are the reminders that came by the old clock: the new one does not count for them.
    """

    at: datetime
    before: tzinfo
    after: tzinfo
    came: Set[JobKey] = frozenset()

    @property
    def days(self) -> timedelta:
        """The whole days that are left out of the comparison."""
        return round((self._new_wall - self._wall_before) / _DAY) * _DAY

    @property
    def _wall_before(self) -> datetime:
        return self.at.astimezone(self.before).replace(tzinfo=None)

    @property
    def _old_wall(self) -> datetime:
        return self._wall_before + self.days

    @property
    def _new_wall(self) -> datetime:
        return self.at.astimezone(self.after).replace(tzinfo=None)

    @property
    def jumped_since(self) -> datetime:
        """The instant from which times of day are jumped over; `at` if none are."""
        if self._new_wall <= self._old_wall:
            return self.at.astimezone(UTC)
        return instant(self._old_wall, self.after).astimezone(UTC)

    def repetitions(self, routine: Routine, until: datetime) -> Iterator[tuple[datetime, datetime]]:
        """The next moments whose times of day the old clock showed by `until`.

        Each comes with the earlier moment at which the old clock showed it.
        """
        last = self._old_wall + max(timedelta(), until - self.at)
        if not self.may_jump(routine):
            return
        for wall in routine.cron.walls(self._new_wall, last):
            moment = instant(wall, self.after).astimezone(UTC)
            if moment > self.at:
                yield moment, instant(wall - self.days, self.before).astimezone(UTC)

    def moves(self, job: Job) -> bool:
        """Whether the job is due by the new clock now."""
        return follows_zone(job) and key_of(job) not in self.came

    def may_jump(self, job: Job) -> bool:
        """Whether a moment of the job that the new clock jumps over is missed."""
        return self.moves(job) and not (isinstance(job, Routine) and is_rhythm(job, self))

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
    if routine.cron.follows_real_time:
        return True
    day = moments_between(routine, move.at - _DAY, move.at, move.before, limit=_RHYTHM)
    return len([*day]) == _RHYTHM
