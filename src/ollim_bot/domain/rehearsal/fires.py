"""What a rehearsal starts from, and the moments that it plays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from heapq import merge
from itertools import groupby

from ollim_bot.domain.catch_up import catch_up
from ollim_bot.domain.decision import BETWEEN_LATE_RUNS
from ollim_bot.domain.jobs import Reminder, Routine, is_ordered
from ollim_bot.domain.occurrences import Occurrence, OccurrenceState, SkipReason
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.quiet import QuietSettings
from ollim_bot.domain.repeats import AfterDone, Rhythm
from ollim_bot.domain.runtime_config import PushWhat, RuntimeConfig
from ollim_bot.domain.schedule import ScheduledJob, is_late, key_of, moments_between, next_due


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What a rehearsal starts from. `zone` is the owner's.

    With `watched_until`, the bot ran until that moment and starts `now`. `skills` are the skills
    that exist; None means that all do. `is_skipped` tells what the owner wants skipped. `quiet`
    says when it is quiet; None means never. `pushes` is what rings on the owner's phone; None
    without one.
    """

    now: datetime
    zone: tzinfo
    budget: PingBudget
    config: RuntimeConfig
    watched_until: datetime | None = None
    skills: Set[str] | None = None
    is_skipped: Callable[[Occurrence], bool] | None = None
    quiet: QuietSettings | None = None
    pushes: PushWhat | None = None


class Ping(StrEnum):
    """What becomes of the one ping of a run; a `must` reminder comes in any case.

    A held ping, or a held turn of the conversation, comes when the quiet ends.
    """

    NONE = "none"
    SENT = "sent"
    HELD = "held"
    REFUSED = "refused"
    ORDERED = "ordered"


@dataclass(frozen=True, slots=True)
class AssumedRuns:
    """Assumes how long each run takes; it pings once at its end."""

    run: timedelta = timedelta(minutes=2)


@dataclass(slots=True)
class Fire:
    """Moments are in UTC. At `at` the bot dispatches it; at `starts` the agent begins.

    `starts` is None for an occurrence that is not run. `quiet_until` is the end of the quiet that
    it comes in, or would have pinged in. `heads_ups` announce it. At the moments `again` it comes
    again, if the owner does not answer.
    """

    job: ScheduledJob
    due: datetime
    at: datetime
    state: OccurrenceState = OccurrenceState.DONE
    reason: SkipReason | None = None
    starts: datetime | None = None
    ping: Ping = Ping.NONE
    quiet_until: datetime | None = None
    heads_ups: tuple[datetime, ...] = ()
    again: tuple[datetime, ...] = ()

    @property
    def is_late(self) -> bool:
        return not self.is_held_turn and is_late(self.due, self.at)

    @property
    def is_skipped(self) -> bool:
        return self.state is OccurrenceState.SKIPPED

    @property
    def is_held_turn(self) -> bool:
        """Whether it is a turn of the conversation that waits for the end of the quiet."""
        is_turn = not (self.job.spec.background or self.job.spec.plain)
        return is_turn and self.ping is Ping.HELD

    @property
    def wait(self) -> timedelta:
        """How long it waits for other runs that came before."""
        is_run = self.starts is not None and not self.is_held_turn
        return self.starts - self.at if is_run and self.starts else timedelta()

    @property
    def is_ordered(self) -> bool:
        return is_ordered(self.job)


Timing = tuple[Rhythm | datetime, tzinfo, date | None]


def by_timing(
    jobs: Iterable[ScheduledJob], zone: tzinfo
) -> Mapping[Timing, Sequence[ScheduledJob]]:
    """Group the jobs that are due at the same moments, which are then computed once."""
    alike: dict[Timing, list[ScheduledJob]] = {}
    for job in jobs:
        when = job.rhythm if isinstance(job, Routine) else job.run_at
        day = when.done_on if isinstance(when, AfterDone) else None
        alike.setdefault((when, job.spec.zone(zone), day), []).append(job)
    return alike


def coming(
    alike: Mapping[Timing, Sequence[ScheduledJob]], start: datetime, end: datetime, zone: tzinfo
) -> Iterator[Fire]:
    """Yield what is due after `start` and by `end`, by time, then by job."""
    groups = [*alike.values()]
    walks = [_walk(number, same[0], start, end, zone) for number, same in enumerate(groups)]
    for at, found in groupby(merge(*walks), key=lambda pair: pair[0]):
        due = [job for _, number in found for job in groups[number]]
        yield from (Fire(job, at, at) for job in sorted(due, key=key_of))


def _walk(
    number: int, job: ScheduledJob, start: datetime, end: datetime, zone: tzinfo
) -> Iterator[tuple[datetime, int]]:
    """What follows its answer is taken to be answered at its moment."""
    if not isinstance(job, Routine) or not isinstance(job.rhythm, AfterDone):
        yield from ((at, number) for at in moments_between(job, start, end, zone))
        return
    rhythm, own_zone = job.rhythm, job.spec.zone(zone)
    at = next(moments_between(job, start, end, zone), None)
    while at is not None and at <= end:
        yield at, number
        at = rhythm.after_answer(at, own_zone).astimezone(UTC)


def caught_up(
    alike: Mapping[Timing, Sequence[ScheduledJob]], given: Assumptions
) -> tuple[list[Fire], int]:
    """What a start does about missed moments, and how many are superseded."""
    if given.watched_until is None:
        return [], 0
    now, zone = given.now.astimezone(UTC), given.zone
    watched_until = min(given.watched_until.astimezone(UTC), now)
    missing = [
        job
        for same in alike.values()
        if (due := next_due(same[0], watched_until, zone)) is not None and due <= now
        for job in same
    ]
    plan = catch_up(missing, watched_until, now, zone, given.is_skipped)
    on_time = [one for one in plan.run if not one.late_since(now)]
    late = [one for one in plan.run if one.late_since(now)]
    fires = [
        *(Fire(job, due, now) for job, due in _overdue(alike, watched_until, zone)),
        *(
            Fire(one.job, one.newest, now, OccurrenceState.MISSED)
            for one in (*plan.tell, *plan.skip)
        ),
        *(Fire(one.job, one.newest, now) for one in on_time),
        *(
            Fire(one.job, one.newest, now + number * BETWEEN_LATE_RUNS)
            for number, one in enumerate(late)
        ),
    ]
    return fires, sum(one.older_count for one in (*plan.run, *plan.tell, *plan.skip))


def _overdue(
    alike: Mapping[Timing, Sequence[ScheduledJob]], watched_until: datetime, zone: tzinfo
) -> Iterator[tuple[Reminder, datetime]]:
    """Reminders that were due before `watched_until`, whose files are still there."""
    for same in alike.values():
        for job in same:
            if isinstance(job, Reminder):
                due = job.due(zone).astimezone(UTC)
                if due <= watched_until:
                    yield job, due
