"""All that fires, in order: what a start would catch up with, and what is due later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from heapq import merge
from itertools import groupby

from ollim_bot.domain.catch_up import catch_up
from ollim_bot.domain.cron import Cron
from ollim_bot.domain.jobs import Reminder, Routine
from ollim_bot.domain.occurrences import OccurrenceState
from ollim_bot.domain.rehearsal.circumstances import Circumstances
from ollim_bot.domain.rehearsal.fires import Fire
from ollim_bot.domain.schedule import ScheduledJob, key_of, moments_between, next_due

BETWEEN_LATE_RUNS = timedelta(seconds=5)

Timing = tuple[Cron | datetime, tzinfo]


def by_timing(
    jobs: Iterable[ScheduledJob], zone: tzinfo
) -> Mapping[Timing, Sequence[ScheduledJob]]:
    """Those that are due at the same moments together: those are found once for all of them."""
    alike: dict[Timing, list[ScheduledJob]] = {}
    for job in jobs:
        when = job.cron if isinstance(job, Routine) else job.run_at
        alike.setdefault((when, job.spec.zone(zone)), []).append(job)
    return alike


def coming(
    alike: Mapping[Timing, Sequence[ScheduledJob]], start: datetime, end: datetime, zone: tzinfo
) -> Iterator[Fire]:
    """What is due after `start` and by `end`, by time, then by job, each found when asked for."""
    groups = [*alike.values()]
    walks = [_walk(number, same[0], start, end, zone) for number, same in enumerate(groups)]
    for at, found in groupby(merge(*walks), key=lambda pair: pair[0]):
        due = [job for _, number in found for job in groups[number]]
        yield from (Fire(job, at, at) for job in sorted(due, key=key_of))


def _walk(
    number: int, job: ScheduledJob, start: datetime, end: datetime, zone: tzinfo
) -> Iterator[tuple[datetime, int]]:
    return ((at, number) for at in moments_between(job, start, end, zone))


def caught_up(
    alike: Mapping[Timing, Sequence[ScheduledJob]], given: Circumstances
) -> tuple[list[Fire], int]:
    """What a start would do about what was missed, and how much of it gave way."""
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
    plan = catch_up(missing, watched_until, now, zone)
    if given.is_skipped is not None:
        plan = plan.handing_on(given.is_skipped)
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
    """Reminders of moments that were watched, which are still there."""
    for same in alike.values():
        for job in same:
            if isinstance(job, Reminder):
                due = job.due(zone).astimezone(UTC)
                if due <= watched_until:
                    yield job, due
