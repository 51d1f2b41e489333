"""Whether an occurrence is late, and what its job then wants."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

from ollim_bot.domain.jobs import Late, Reminder, Routine
from ollim_bot.domain.moments import elapsed
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.schedule import ScheduledJob

STILL_ON_TIME = timedelta(seconds=60)
LONGEST_PATIENCE = timedelta(hours=2)
# A longer gap between two looks means that the machine slept, or that the program stood still.
ASLEEP = timedelta(seconds=90)


def is_late(due: datetime, now: datetime) -> bool:
    return elapsed(due, now) > STILL_ON_TIME


def late_since(occurrence: Occurrence, now: datetime) -> datetime | None:
    """The due moment, if a run that starts `now` is late. A manual run is never late."""
    due = None if occurrence.manual else occurrence.scheduled_at
    return due if due is not None and is_late(due, now) else None


def late_rule(job: ScheduledJob, due: datetime, now: datetime, zone: tzinfo) -> Late:
    """What to do with an occurrence that was due while the program was away.

    What must come runs however late. Else the job's `late` field decides, or the kind of the job. A
    job that the agent set itself never causes a message.
    """
    if job.must or not is_late(due, now):
        return Late.RUN
    late = job.spec.late or _default_rule(job, due, now, zone)
    return Late.SKIP if late is Late.TELL and job.spec.set_by else late


def _default_rule(job: ScheduledJob, due: datetime, now: datetime, zone: tzinfo) -> Late:
    if isinstance(job, Reminder) or elapsed(due, now) < _patience(job, due, zone):
        return Late.RUN
    return Late.TELL


def _patience(routine: Routine, due: datetime, zone: tzinfo) -> timedelta:
    following = routine.next_after(due, zone)
    if following is None:
        return LONGEST_PATIENCE
    return min(elapsed(due, following) / 2, LONGEST_PATIENCE)
