"""What was missed while the bot was away or asleep: what of it is run, told, or only recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from ollim_bot.domain.jobs import Late, Reminder, Routine
from ollim_bot.domain.moments import describe, elapsed
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.schedule import (
    ScheduledJob,
    count_between,
    last_due,
    moments_between,
    occurrence_at,
)

STILL_ON_TIME = timedelta(seconds=60)
LONGEST_PATIENCE = timedelta(hours=2)
MOST_LISTED = 5000
_MOST_TOLD = 5


@dataclass(frozen=True, slots=True)
class Missed:
    """What one job missed: `newest` counts, all before it is superseded.

    `older` are the first of the superseded moments, in order, 5000 at most; `older_count` is how
    many there are.
    """

    job: ScheduledJob
    newest: datetime
    older: tuple[datetime, ...] = ()
    older_count: int = 0

    @property
    def occurrence(self) -> Occurrence:
        return occurrence_at(self.job, self.newest)

    @property
    def facts(self) -> dict[str, object]:
        """What its first row says of it."""
        return {"job": self.job.spec.title}

    def late_since(self, now: datetime) -> datetime | None:
        """The moment it should have run at, if running it now would be late."""
        return self.newest if is_late(self.newest, now) else None


@dataclass(frozen=True, slots=True)
class CatchUp:
    """What becomes of the newest moment of each job, in the order in which it is to be done."""

    run: tuple[Missed, ...] = ()
    tell: tuple[Missed, ...] = ()
    skip: tuple[Missed, ...] = ()

    def handing_on(self, is_skipped: Callable[[Occurrence], bool]) -> CatchUp:
        """With what the owner wanted skipped among `run`, where it is recorded as skipped."""
        ended = (*self.tell, *self.skip)
        handed_on = tuple(missed for missed in ended if is_skipped(missed.occurrence))
        tell, skip = (
            tuple(missed for missed in each if missed not in handed_on)
            for each in (self.tell, self.skip)
        )
        return CatchUp((*self.run, *handed_on), tell, skip)


def catch_up(
    jobs: Iterable[ScheduledJob], heartbeat: datetime, now: datetime, zone: tzinfo
) -> CatchUp:
    """`heartbeat` is the moment up to which all that was due has been claimed.

    Reminders come first, then what was due first. Nothing was missed if the clock went back.
    """
    found: dict[Late, list[Missed]] = {late: [] for late in Late}
    for job in jobs:
        missed = missed_since(job, heartbeat, now, zone)
        if missed is not None:
            found[verdict(job, missed.newest, now, zone)].append(missed)
    ordered = {late: tuple(sorted(each, key=_urgency)) for late, each in found.items()}
    return CatchUp(run=ordered[Late.RUN], tell=ordered[Late.TELL], skip=ordered[Late.SKIP])


def missed_since(
    job: ScheduledJob, heartbeat: datetime, now: datetime, zone: tzinfo
) -> Missed | None:
    """What was due after `heartbeat` and by `now`, if anything was."""
    newest = last_due(job, now, zone)
    if newest is None or newest <= heartbeat.astimezone(UTC):
        return None
    before = newest - datetime.resolution
    older = tuple(moments_between(job, heartbeat, before, zone, limit=MOST_LISTED))
    beyond = count_between(job, older[-1], before, zone) if len(older) == MOST_LISTED else 0
    return Missed(job, newest, older, len(older) + beyond)


def verdict(job: ScheduledJob, newest: datetime, now: datetime, zone: tzinfo) -> Late:
    """What to do with a moment that has passed, by the wish of its author or else by its kind.

    What is not late yet is simply run. What the bot has set by itself is not worth a message.
    """
    if not is_late(newest, now):
        return Late.RUN
    late = job.spec.late or _usual(job, newest, now, zone)
    return Late.SKIP if late is Late.TELL and job.spec.set_by else late


def _usual(job: ScheduledJob, newest: datetime, now: datetime, zone: tzinfo) -> Late:
    if isinstance(job, Reminder) or elapsed(newest, now) < _patience(job, newest, zone):
        return Late.RUN
    return Late.TELL


def is_late(moment: datetime, now: datetime) -> bool:
    return elapsed(moment, now) > STILL_ON_TIME


def late_since(occurrence: Occurrence, now: datetime) -> datetime | None:
    """When it was due, if to begin with it now is late; what is run by hand never is."""
    due = None if occurrence.manual else occurrence.scheduled_at
    return due if due is not None and is_late(due, now) else None


def away_message(told: Sequence[Missed], now: datetime) -> str:
    """The one message about all that was missed and not run; empty if there is nothing to tell."""
    if not told:
        return ""
    if len(told) == 1:
        missed = f"“{told[0].job.spec.short_title}”, {_times(told[0], now)}"
        return f"While I was away I missed {missed}. Tell me if it should still run."
    shown = [f"- {each.job.spec.short_title}: {_times(each, now)}" for each in told[:_MOST_TOLD]]
    more = [f"- and {len(told) - _MOST_TOLD} more"] if len(told) > _MOST_TOLD else []
    head = f"While I was away I missed {len(told)} things:"
    return "\n".join([head, *shown, *more, "Tell me which of them should still run."])


def _times(missed: Missed, now: datetime) -> str:
    """`today 8:00`, `today 8:00 and 3 times before`."""
    moment = describe(missed.newest, now)
    match missed.older_count:
        case 0:
            return moment
        case 1:
            return f"{moment} and once before"
        case count:
            return f"{moment} and {count} times before"


def _patience(routine: Routine, newest: datetime, zone: tzinfo) -> timedelta:
    following = routine.next_after(newest, zone)
    return min(elapsed(newest, following) / 2, LONGEST_PATIENCE)


def _urgency(missed: Missed) -> tuple[bool, datetime, str]:
    return isinstance(missed.job, Routine), missed.newest, missed.job.spec.id
