"""What the owner should know about a rehearsed schedule."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import chain, groupby, takewhile
from operator import attrgetter

from ollim_bot.domain.job_kinds import JobKey
from ollim_bot.domain.jobs import Late, Routine, is_ordered
from ollim_bot.domain.moments import (
    MONTHS,
    WEEKDAYS,
    clock_change,
    clock_time,
    describe,
    duration_in_words,
    instant,
    offset_at,
)
from ollim_bot.domain.occurrences import OccurrenceState, SkipReason
from ollim_bot.domain.push import KEPT_FOR_MUST, PER_DAY
from ollim_bot.domain.rehearsal.fires import Assumptions, Fire, Ping, Timing, by_timing
from ollim_bot.domain.rehearsal.phone import push_days
from ollim_bot.domain.rehearsal.simulation import Rehearsal, rehearse
from ollim_bot.domain.schedule import ScheduledJob, key_of, next_due

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ClockChange:
    """`wall` is a time that the clocks skip, or show twice; it is due at `at`."""

    job: ScheduledJob
    wall: datetime
    at: datetime
    is_twice: bool


@dataclass(frozen=True, slots=True)
class _Change:
    """The wall-clock times from `low` on and before `high` occur twice or never."""

    low: datetime
    high: datetime
    is_twice: bool


def oddities(
    alike: Mapping[Timing, Sequence[ScheduledJob]], start: datetime, end: datetime
) -> Iterator[ClockChange]:
    """The oddities after `start` and until `end`. A line that follows real time has none."""
    changes: dict[tzinfo, list[_Change]] = {}
    for (_, zone, _), same in alike.items():
        if zone not in changes:
            changes[zone] = [*_changes(zone, start.astimezone(UTC), end.astimezone(UTC))]
        for change in changes[zone]:
            wall = _odd_wall(same[0], change)
            at = None if wall is None else instant(wall, zone).astimezone(UTC)
            if wall is not None and at is not None and start < at <= end:
                yield from (ClockChange(job, wall, at, change.is_twice) for job in same)


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
    if job.rhythm.follows_real_time:
        return None
    # In a zone without clock changes, all wall-clock times exist once.
    low, high = (wall.replace(tzinfo=UTC) for wall in (change.low, change.high))
    first = next(job.rhythm.between(low, high, UTC), None)
    return None if first is None else first.replace(tzinfo=None)


SEVERAL = 3
_MOST_NAMED = 3
_OBSTACLES = {
    SkipReason.INVALID_TOOLS: "a tool in its file is wrong",
    SkipReason.MISSING_SKILL: "it names a skill that does not load",
}


class FindingKind(StrEnum):
    CANNOT_RUN = "cannot run"
    MISSED = "missed"
    BUDGET = "budget"
    PHONE = "phone"
    OVERLAP = "overlap"
    WAITING = "waiting"
    TOGETHER = "together"
    CLOCKS = "clocks"


@dataclass(frozen=True, slots=True)
class Finding:
    """`at` is the first time, in the owner's zone, and `times` is how often."""

    kind: FindingKind
    at: datetime
    times: int
    jobs: tuple[JobKey, ...]
    sentence: str


def findings(rehearsal: Rehearsal, meeting: Set[JobKey] | None = None) -> Sequence[Finding]:
    """The findings, most important first; with `meeting`, jobs that meet one of these only."""
    found = chain(
        _cannot_run(rehearsal),
        _missed(rehearsal),
        _dry(rehearsal),
        _full(rehearsal),
        _overlapping(rehearsal),
        _waiting(rehearsal),
        _together(rehearsal, meeting),
        _clocks(rehearsal),
    )
    return [*found]


def _cannot_run(rehearsal: Rehearsal) -> Iterator[Finding]:
    hindered = [fire for fire in rehearsal.fires if fire.reason in _OBSTACLES]
    for fires in _by_job(hindered):
        assert fires[0].reason is not None
        because = _OBSTACLES[fires[0].reason]
        sentence = f"{_named(fires[0].job)} would not run: {because}."
        yield _finding(FindingKind.CANNOT_RUN, rehearsal, fires, sentence)


def _missed(rehearsal: Rehearsal) -> Iterator[Finding]:
    now = rehearsal.now.astimezone(UTC)
    for fire in takewhile(lambda fire: fire.due <= now, rehearsal.fires):
        if not fire.is_late and fire.state is not OccurrenceState.MISSED:
            continue
        if fire.state is not OccurrenceState.MISSED:
            then = "It would run late."
        elif fire.job.spec.late is Late.SKIP:
            then = "It would not run."
        else:
            then = "It would not run, and you would be told."
        when = describe(fire.due, rehearsal.now)
        sentence = f"{_named(fire.job)}, {when}, was missed. {then}"
        yield _finding(FindingKind.MISSED, rehearsal, [fire], sentence)


def _dry(rehearsal: Rehearsal) -> Iterator[Finding]:
    refused = [fire for fire in rehearsal.fires if fire.ping is Ping.REFUSED]
    if not refused:
        return
    first, days = describe(refused[0].due, rehearsal.now), len(rehearsal.dry_days)
    when = first if days == 1 else f"on {days} days, first {first}"
    pings = "1 ping" if len(refused) == 1 else f"{len(refused)} pings"
    sentence = f"The ping budget would run dry {when}: {pings} would be refused."
    yield _finding(FindingKind.BUDGET, rehearsal, refused, sentence)


def _full(rehearsal: Rehearsal) -> Iterator[Finding]:
    full = [each for each in push_days(rehearsal) if each.missing]
    if not full:
        return
    first = full[0].first.astimezone(rehearsal.zone)
    most = max(each.missing for each in full)
    day = _when([first.date()], rehearsal.now.date())
    when = day if len(full) == 1 else f"on {len(full)} days, first {day}"
    sentence = (
        f"Your phone takes {PER_DAY} messages a day, the last {KEPT_FOR_MUST} only for what must "
        f"come: up to {most} could be missing there {when}."
    )
    jobs = tuple(key for key, _ in full[0].jobs.most_common())
    yield Finding(FindingKind.PHONE, first, len(full), jobs, sentence)


def _overlapping(rehearsal: Rehearsal) -> Iterator[Finding]:
    skipped = [fire for fire in rehearsal.fires if fire.reason is SkipReason.OVERLAP]
    for fires in _by_job(skipped):
        first = describe(fires[0].due, rehearsal.now)
        when = first if len(fires) == 1 else f"{len(fires)} times, first {first}"
        sentence = (
            f"{_named(fires[0].job)} would be skipped {when}: its last run would still be going."
        )
        yield _finding(FindingKind.OVERLAP, rehearsal, fires, sentence)


def _waiting(rehearsal: Rehearsal) -> Iterator[Finding]:
    waiting = [
        fire
        for fire in rehearsal.fires
        if fire.starts is not None and fire.job.spec.background and fire.starts > fire.at
    ]
    if not waiting:
        return
    longest = max(waiting, key=lambda fire: fire.wait)
    runs = "run" if rehearsal.places == 1 else "runs"
    times = "once" if len(waiting) == 1 else f"{len(waiting)} times"
    sentence = (
        f"Only {rehearsal.places} background {runs} can go at once. A run would wait {times}, "
        f"{duration_in_words(longest.wait)} at most ({_named(longest.job)}, "
        f"{describe(longest.due, rehearsal.now)}). Reminders go first."
    )
    yield _finding(FindingKind.WAITING, rehearsal, waiting, sentence)


def _together(rehearsal: Rehearsal, meeting: Set[JobKey] | None) -> Iterator[Finding]:
    """Each set of jobs that are due together, the largest first."""
    meetings: dict[tuple[int, ...], list[Sequence[Fire]]] = {}
    now = rehearsal.now.astimezone(UTC)
    for fires in _at_one_moment(rehearsal, meeting):
        if len(fires) >= SEVERAL and fires[0].due > now:
            meetings.setdefault(tuple([id(fire.job) for fire in fires]), []).append(fires)
    for met in sorted(meetings.values(), key=lambda met: -len(met[0])):
        more = {1: "", 2: " and once more"}.get(len(met), f" and {len(met) - 1} more times")
        when = f"{describe(met[0][0].due, rehearsal.now)}{more}"
        names = _listed([_named(fire.job) for fire in met[0]])
        sentence = f"{len(met[0])} jobs come at the same moment, {when}: {names}."
        first = met[0]
        keys = tuple(key_of(fire.job) for fire in first)
        at = first[0].due.astimezone(rehearsal.zone)
        yield Finding(FindingKind.TOGETHER, at, len(met), keys, sentence)


def _at_one_moment(rehearsal: Rehearsal, meeting: Set[JobKey] | None) -> Iterator[Sequence[Fire]]:
    """The fires of each moment; with `meeting`, of the moments of these jobs."""
    due, fires = attrgetter("due"), rehearsal.fires
    if meeting is None:
        yield from ([*found] for _, found in groupby(fires, key=due))
        return
    jobs = {id(fire.job): fire.job for fire in fires}
    own = {number for number, job in jobs.items() if key_of(job) in meeting}
    for moment in dict.fromkeys([fire.due for fire in fires if id(fire.job) in own]):
        yield fires[bisect_left(fires, moment, key=due) : bisect_right(fires, moment, key=due)]


def _clocks(rehearsal: Rehearsal) -> Iterator[Finding]:
    jobs = {id(fire.job): fire.job for fire in rehearsal.fires}
    alike = by_timing(jobs.values(), rehearsal.zone)
    found = oddities(alike, rehearsal.now, rehearsal.until)
    for odd in sorted(found, key=lambda odd: (odd.at, key_of(odd.job))):
        name, own = _named(odd.job), odd.job.spec.timezone
        day = f"{WEEKDAYS[odd.wall.weekday()]} {odd.wall.day} {MONTHS[odd.wall.month - 1]}"
        there = f" in {own.key}" if own is not None and own != rehearsal.zone else ""
        time = clock_time(odd.wall)
        if odd.is_twice:
            sentence = f"{name}: {time}{there} comes twice on {day}. It runs the first time only."
        else:
            shown = clock_time(odd.at.astimezone(odd.job.spec.zone(rehearsal.zone)))
            sentence = f"{name}: there is no {time}{there} on {day}. It runs at {shown}."
        at = odd.at.astimezone(rehearsal.zone)
        yield Finding(FindingKind.CLOCKS, at, 1, (key_of(odd.job),), sentence)


def _by_job(fires: Iterable[Fire]) -> Iterable[Sequence[Fire]]:
    of_job: dict[JobKey, list[Fire]] = {}
    for fire in fires:
        of_job.setdefault(key_of(fire.job), []).append(fire)
    return of_job.values()


def _finding(
    kind: FindingKind, rehearsal: Rehearsal, fires: Sequence[Fire], sentence: str
) -> Finding:
    keys = tuple(dict.fromkeys(key_of(fire.job) for fire in fires))
    return Finding(kind, fires[0].due.astimezone(rehearsal.zone), len(fires), keys, sentence)


def _named(job: ScheduledJob) -> str:
    return f"“{job.spec.short_title}”"


def _listed(names: Sequence[str]) -> str:
    if len(names) <= _MOST_NAMED:
        return ", ".join(names[:-1]) + f" and {names[-1]}"
    return ", ".join(names[:_MOST_NAMED]) + f" and {len(names) - _MOST_NAMED} more"


# More jobs would take a second to rehearse, and so many are sure to be due together.
MOST_ASKED = 1000
DAYS = 7
_MOST_DAYS = 3


def warnings(
    job: ScheduledJob, others: Collection[ScheduledJob], given: Assumptions
) -> Sequence[str]:
    """Short warnings about a new job; none if all is well, or if there are very many others."""
    if len(others) > MOST_ASKED:
        return ()
    found = []
    meets = _others_at_its_moment(job, others, given.now, given.zone)
    if meets + 1 >= SEVERAL:
        found.append(f"That is when {meets} others run.")
    if days := _dry_days(job, others, given):
        today = given.now.astimezone(given.zone).date()
        found.append(f"The ping budget would run dry {_when(days, today)}.")
    return found


def _others_at_its_moment(
    job: ScheduledJob, others: Collection[ScheduledJob], now: datetime, zone: tzinfo
) -> int:
    moment = next_due(job, now, zone)
    if moment is None:
        return 0
    # What comes so long from now is due at an odd second.
    minute = moment.replace(second=0, microsecond=0)
    before, end = minute - datetime.resolution, minute + timedelta(minutes=1)
    enabled = (other for other in others if other.spec.enabled)
    return sum(
        len(same)
        for same in by_timing(enabled, zone).values()
        if (next_due(same[0], before, zone) or end) < end
    )


def _dry_days(
    job: ScheduledJob, others: Collection[ScheduledJob], given: Assumptions
) -> Sequence[date]:
    """The days on which the job is refused a ping, or leaves too few for another job."""
    if is_ordered(job) or not (job.spec.enabled and job.spec.background and job.spec.allow_ping):
        return ()
    after = rehearse([*others, job], given, DAYS)
    own = {
        fire.due.astimezone(given.zone).date()
        for fire in after.fires
        if fire.ping is Ping.REFUSED and key_of(fire.job) == key_of(job)
    }
    if after.dry_days == own:
        return sorted(own)
    before = rehearse(others, given, DAYS)
    return sorted(own | (after.dry_days - before.dry_days))


def _when(days: Sequence[date], today: date) -> str:
    """`today`, `on Tue`, `tomorrow and on Wed`, `on 5 days, first today`."""
    near = {today: "today", today + timedelta(days=1): "tomorrow"}
    names = [near.get(day) or f"on {WEEKDAYS[day.weekday()]}" for day in days]
    if len(names) > _MOST_DAYS:
        return f"on {len(names)} days, first {names[0]}"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
