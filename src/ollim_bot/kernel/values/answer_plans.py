"""The moment that an answer has set for a routine that comes again after it is done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, TypeVar

from ollim_bot.kernel.base.errors import BadCron, BadRepeat
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import zone_named
from ollim_bot.kernel.values.definitions import Definition
from ollim_bot.kernel.values.jobs import Job, Routine
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState
from ollim_bot.kernel.values.repeats import AfterDone, read_rhythm
from ollim_bot.kernel.values.run_history import RunStory, planned_row

if TYPE_CHECKING:
    pass


J = TypeVar("J", bound=Job)

# How long a moment that has passed may still be claimed; after that, it is planned anew.
JUST_PASSED = timedelta(minutes=5)
# The facts of the row: the day of the answer, the answered occurrence, and the day of the plan that
# this one has replaced.
_DAY, _AFTER, _INSTEAD = "done_on", "after", "instead_of"


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """`routine` comes at `occurrence`, because it was answered on `day`.

    `after` is the id of the answered occurrence. `instead` is the day of the plan that this one has
    replaced, which an Undo brings back.
    """

    occurrence: Occurrence
    title: str
    day: date
    after: str = ""
    instead: date | None = None

    @classmethod
    def read(cls, story: RunStory) -> AnswerPlan | None:
        """The plan with which the story begins; None if it begins with none."""
        one = story.occurrence
        if one.part or not story.rows or story.rows[0].state != OccurrenceState.PLANNED:
            return None
        facts = story.rows[0].facts
        instead = facts.get(_INSTEAD)
        return cls(
            one,
            str(facts.get("job", "")),
            date.fromisoformat(str(facts.get(_DAY))),
            str(facts.get(_AFTER, "")),
            date.fromisoformat(str(instead)) if instead else None,
        )

    @property
    def at(self) -> datetime:
        moment = self.occurrence.scheduled_at
        assert moment is not None
        return moment

    def row(self, now: datetime) -> LedgerRow:
        facts: dict[str, object] = {_DAY: self.day.isoformat()}
        facts |= {_AFTER: self.after} if self.after else {}
        facts |= {_INSTEAD: self.instead.isoformat()} if self.instead else {}
        return planned_row(self.occurrence, self.title, self.at, now, **facts)


def after_done_of(definition: Definition | None) -> tuple[AfterDone, tzinfo] | None:
    """The rhythm and the zone of an armed job that follows its answers; None for any other."""
    if definition is None or definition.key.kind is not JobKind.ROUTINE:
        return None
    try:
        rhythm = read_rhythm(definition.timing)
    except (BadCron, BadRepeat):
        return None
    zone = zone_named(definition.zone)
    return (rhythm, zone) if isinstance(rhythm, AfterDone) and zone is not None else None


def day_before(rhythm: AfterDone, day: date, now: datetime, zone: tzinfo) -> date:
    """`day`, or the later day whose moment is the first after `now` if that of `day` has passed."""
    now = now.astimezone(UTC)
    if rhythm.after_day(day, zone).astimezone(UTC) > now:
        return day
    day = now.astimezone(zone).date() - timedelta(rhythm.days)
    while rhythm.after_day(day, zone).astimezone(UTC) <= now:
        day += timedelta(1)
    return day


def plan_just_passed(job: Routine, since: datetime, zone: tzinfo) -> datetime | None:
    """The moment of the routine's plan, if it lies within `JUST_PASSED` before `since`."""
    rhythm = job.rhythm
    if not isinstance(rhythm, AfterDone) or rhythm.done_on is None:
        return None
    at = rhythm.after_day(rhythm.done_on, job.spec.zone(zone)).astimezone(UTC)
    return at if since - JUST_PASSED < at <= since else None


def with_plan(job: J, day: date | None) -> J:
    """The job, which knows its next moment if it follows its answers; `day` is that of the last."""
    if day is None or not isinstance(job, Routine) or not isinstance(job.rhythm, AfterDone):
        return job
    return replace(job, rhythm=replace(job.rhythm, done_on=day))


def with_plan_of(job: J, former: Job | None) -> J:
    """The draft of a job, with the next moment that the job has and no file says."""
    rhythm = former.rhythm if isinstance(former, Routine) else None
    return with_plan(job, rhythm.done_on) if isinstance(rhythm, AfterDone) else job
