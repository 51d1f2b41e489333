"""Finds what was missed while the bot was away or asleep, and decides about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.values.decision import Circumstances, Decision, Miss, Skip, decide
from ollim_bot.kernel.values.jobs import Job, Routine, is_ordered
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.run_history import MUST
from ollim_bot.kernel.values.schedule import (
    ScheduledJob,
    count_between,
    is_late,
    last_due,
    moments_between,
    occurrence_at,
)

MOST_LISTED = 5000
WHILE_AWAY = "While I was away I missed"
JUMPED_OVER = "Your clock has jumped over"
_MOST_TOLD = 5


@dataclass(frozen=True, slots=True)
class Missed:
    """The missed moments of one job: `newest` counts, all earlier ones are superseded.

    `older` are the first of the superseded moments, in order, 5000 at most; `older_count` is their
    whole number.
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
        """The facts of the first row."""
        return claim_facts(self.job)

    def late_since(self, now: datetime) -> datetime | None:
        """The due moment, if a run at `now` would be late."""
        return self.newest if is_late(self.newest, now) else None


@dataclass(frozen=True, slots=True)
class CatchUp:
    """The decisions about the newest moment of each job; each part is in its order of execution.

    `run` goes to dispatch. `tell` and `skip` end as missed, and the owner is told of `tell`.
    """

    run: tuple[Missed, ...] = ()
    tell: tuple[Missed, ...] = ()
    skip: tuple[Missed, ...] = ()

    def parts(self, most: int) -> Iterator[CatchUp]:
        """The same in parts with at most `most` jobs in each list; there is at least one part."""
        for first in range(0, max(len(self.run), len(self.tell), len(self.skip), 1), most):
            end = first + most
            yield CatchUp(self.run[first:end], self.tell[first:end], self.skip[first:end])


def catch_up(
    jobs: Iterable[ScheduledJob],
    heartbeat: datetime,
    now: datetime,
    zone: tzinfo,
    is_skipped: Callable[[Occurrence], bool] | None = None,
) -> CatchUp:
    """Decide about everything due since `heartbeat`, until when all due moments are claimed.

    Reminders come first, then routines by due moment, and the owner's skips last. If the clock was
    set back, nothing was missed.
    """
    found: list[tuple[Missed, Decision]] = []
    for job in jobs:
        missed = missed_since(job, heartbeat, now, zone)
        if missed is not None:
            wish = is_skipped is not None and is_skipped(missed.occurrence)
            away = Circumstances(missed.newest, now, zone, was_away=True, is_skipped=wish)
            found.append((missed, decide(job, away)))

    def urgency(one: tuple[Missed, Decision]) -> tuple[bool, bool, datetime, str]:
        missed, decision = one
        job = missed.job
        return isinstance(decision, Skip), isinstance(job, Routine), missed.newest, job.spec.id

    found.sort(key=urgency)
    return CatchUp(
        run=tuple(missed for missed, decision in found if not isinstance(decision, Miss)),
        tell=tuple(missed for missed, decision in found if decision == Miss(is_told=True)),
        skip=tuple(missed for missed, decision in found if decision == Miss(is_told=False)),
    )


def is_superseded(
    job: Job | None,
    one: Occurrence,
    is_claimed: Callable[[Occurrence], bool],
    watched_until: datetime,
    now: datetime,
) -> bool:
    """Whether a newer moment of the routine will be caught up on."""
    if not isinstance(job, Routine) or one.manual or one.scheduled_at is None:
        return False
    newest = last_due(job, now, now.tzinfo or UTC)
    if newest is None or newest <= max(one.scheduled_at, watched_until):
        return False
    return not is_claimed(occurrence_at(job, newest))


def missed_since(
    job: ScheduledJob, heartbeat: datetime, now: datetime, zone: tzinfo
) -> Missed | None:
    """The moments due after `heartbeat` and until `now`; None if there are none."""
    newest = last_due(job, now, zone)
    if newest is None or newest <= heartbeat.astimezone(UTC):
        return None
    before = newest - datetime.resolution
    older = tuple(moments_between(job, heartbeat, before, zone, limit=MOST_LISTED))
    beyond = count_between(job, older[-1], before, zone) if len(older) == MOST_LISTED else 0
    return Missed(job, newest, older, len(older) + beyond)


def away_message(told: Sequence[Missed], now: datetime, cause: str = WHILE_AWAY) -> str:
    """The one message about everything missed and not run; empty if there is nothing to tell.

    `cause` begins it.
    """
    if not told:
        return ""
    if len(told) == 1:
        missed = f"“{told[0].job.spec.short_title}”, {_times(told[0], now)}"
        return f"{cause} {missed}. Tell me if it should still run."
    shown = [f"- {each.job.spec.short_title}: {_times(each, now)}" for each in told[:_MOST_TOLD]]
    more = [f"- and {len(told) - _MOST_TOLD} more"] if len(told) > _MOST_TOLD else []
    head = f"{cause} {len(told)} things:"
    return "\n".join([head, *shown, *more, "Tell me which of them should still run."])


def passed_over_message(told: Sequence[Missed], now: datetime, copy: str) -> str:
    """The one message about what was due between a copy and the return to it, and does not run.

    `copy` is what it is called. What must come is always named, and comes first.
    """
    ordered = sorted(told, key=lambda each: not is_ordered(each.job))
    most = max(_MOST_TOLD, sum(is_ordered(each.job) for each in told))
    shown = [f"“{each.job.spec.short_title}”, {_times(each, now)}" for each in ordered[:most]]
    more = [f"{len(told) - most} more"] if len(told) > most else []
    listed = "; ".join((*shown, *more))
    return (
        f"Since this {copy} these were due, and may have come already: {listed}. None of them is "
        "repeated. Tell me which should still run."
    )


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


def claim_facts(job: Job) -> dict[str, object]:
    """The facts of the first row of an occurrence."""
    is_must = isinstance(job, Routine) and is_ordered(job)
    return {"job": job.spec.title} | ({MUST: True} if is_must else {})
