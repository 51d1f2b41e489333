"""What the owner should know about a rehearsed schedule."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import groupby, takewhile
from operator import attrgetter, itemgetter
from typing import NamedTuple

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.base.moments import (
    clock_change,
    clock_time,
    describe,
    duration_in_words,
    instant,
    offset_at,
    short_day,
)
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.digest import OF_DIGEST
from ollim_bot.kernel.values.jobs import Late, Routine, list_names
from ollim_bot.kernel.values.occurrences import OccurrenceState, SkipReason
from ollim_bot.kernel.values.push import KEPT_FOR_MUST, PER_DAY, is_pushed
from ollim_bot.kernel.values.runtime_config import PushWhat
from ollim_bot.kernel.values.schedule import ScheduledJob, key_of, occurrence_at
from ollim_bot.kernel.values.simulation import SEVERAL, Fire, Ping, Rehearsal, by_timing, which_days


class _Oddity(NamedTuple):
    """`wall` is a time that the clocks skip, or show twice; it is due at `at`."""

    at: datetime
    key: JobKey
    job: ScheduledJob
    wall: datetime
    is_twice: bool


def _oddities(rehearsal: Rehearsal) -> list[_Oddity]:
    """By time and job. A line that follows real time has none."""
    found = []
    start, end = rehearsal.now.astimezone(UTC), rehearsal.until.astimezone(UTC)
    changes: dict[tzinfo, list[tuple[datetime, datetime, bool]]] = {}
    for (_, zone, _), same in by_timing(rehearsal.jobs.values(), rehearsal.zone).items():
        if zone not in changes:
            changes[zone] = [*_changes(zone, start, end)]
        for low, high, is_twice in changes[zone]:
            wall = _odd_wall(same[0], low, high)
            at = wall and instant(wall, zone).astimezone(UTC)
            if wall and at and start < at <= end:
                found += [_Oddity(at, key_of(job), job, wall, is_twice) for job in same]
    return sorted(found, key=lambda odd: odd[:2])


def _changes(
    zone: tzinfo, start: datetime, end: datetime
) -> Iterator[tuple[datetime, datetime, bool]]:
    """Between which wall-clock times each occurs never, or twice if that is true."""
    while start < end:
        day = min(start + timedelta(days=1), end)
        before, after = offset_at(start, zone), offset_at(day, zone)
        if before != after:
            at = clock_change(start, day, zone).replace(tzinfo=None)
            low, high = sorted((at + before, at + after))
            yield low, high, after < before
        start = day


def _odd_wall(job: ScheduledJob, low: datetime, high: datetime) -> datetime | None:
    if not isinstance(job, Routine):
        wall = job.run_at
        return wall if wall.tzinfo is None and low <= wall < high else None
    if job.rhythm.follows_real_time:
        return None
    # In a zone without clock changes, all wall-clock times exist once.
    walls = job.rhythm.between(low.replace(tzinfo=UTC), high.replace(tzinfo=UTC), UTC)
    return next((wall.replace(tzinfo=None) for wall in walls), None)


_OBSTACLES: Mapping[SkipReason | None, str] = {
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
    return [
        *_cannot_run(rehearsal),
        *_missed(rehearsal),
        *_dry(rehearsal),
        *_full(rehearsal),
        *_overlapping(rehearsal),
        *_waiting(rehearsal),
        *_together(rehearsal, meeting),
        *_clocks(rehearsal),
    ]


def _cannot_run(rehearsal: Rehearsal) -> Iterator[Finding]:
    for fires in _by_job(fire for fire in rehearsal.fires if fire.reason in _OBSTACLES):
        sentence = f"{_named(fires[0].job)} would not run: {_OBSTACLES[fires[0].reason]}."
        yield _finding(FindingKind.CANNOT_RUN, rehearsal, fires, sentence)


def _missed(rehearsal: Rehearsal) -> Iterator[Finding]:
    now = rehearsal.now.astimezone(UTC)
    for fire in takewhile(lambda fire: fire.due <= now, rehearsal.fires):
        if fire.state is OccurrenceState.MISSED:
            told = "" if fire.job.spec.late is Late.SKIP else ", and you would be told"
            then = f"It would not run{told}."
        elif fire.is_late:
            then = "It would run late."
        else:
            continue
        when = describe(fire.due, rehearsal.now)
        sentence = f"{_named(fire.job)}, {when}, was missed. {then}"
        yield _finding(FindingKind.MISSED, rehearsal, [fire], sentence)


def _dry(rehearsal: Rehearsal) -> Iterator[Finding]:
    refused = [fire for fire in rehearsal.fires if fire.ping is Ping.REFUSED]
    if not refused:
        return
    first, days = describe(refused[0].due, rehearsal.now), len(rehearsal.dry_days)
    when = first if days == 1 else f"on {days} days, first {first}"
    pings = counted(len(refused), "ping")
    sentence = f"The ping budget would run dry {when}: {pings} would be refused."
    yield _finding(FindingKind.BUDGET, rehearsal, refused, sentence)


def _full(rehearsal: Rehearsal) -> Iterator[Finding]:
    full = [each for each in push_days(rehearsal) if each.missing]
    if not full:
        return
    first = full[0].first.astimezone(rehearsal.zone)
    most = max(each.missing for each in full)
    day = which_days([first.date()], rehearsal.now.date())
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
    places = counted(rehearsal.places, "background run")
    times = "once" if len(waiting) == 1 else f"{len(waiting)} times"
    sentence = (
        f"Only {places} can go at once. A run would wait {times}, "
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
        first, times = met[0], len(met)
        more = {1: "", 2: " and once more"}.get(times, f" and {times - 1} more times")
        names = list_names([_named(fire.job) for fire in first], str, "and", 3)
        when = f"{describe(first[0].due, rehearsal.now)}{more}"
        sentence = f"{len(first)} jobs come at the same moment, {when}: {names}."
        found = _finding(FindingKind.TOGETHER, rehearsal, first, sentence)
        yield replace(found, times=times)


def _at_one_moment(rehearsal: Rehearsal, meeting: Set[JobKey] | None) -> Iterator[Sequence[Fire]]:
    """The fires of each moment; with `meeting`, of the moments of these jobs."""
    due, fires = attrgetter("due"), rehearsal.fires
    if meeting is None:
        yield from ([*found] for _, found in groupby(fires, key=due))
        return
    own = {number for number, job in rehearsal.jobs.items() if key_of(job) in meeting}
    for moment in dict.fromkeys([fire.due for fire in fires if id(fire.job) in own]):
        yield fires[bisect_left(fires, moment, key=due) : bisect_right(fires, moment, key=due)]


def _clocks(rehearsal: Rehearsal) -> Iterator[Finding]:
    for odd in _oddities(rehearsal):
        name, own = _named(odd.job), odd.job.spec.timezone
        day = short_day(odd.wall)
        there = f" in {own.key}" if own is not None and own != rehearsal.zone else ""
        time = clock_time(odd.wall)
        if odd.is_twice:
            sentence = f"{name}: {time}{there} comes twice on {day}. It runs the first time only."
        else:
            shown = clock_time(odd.at.astimezone(odd.job.spec.zone(rehearsal.zone)))
            sentence = f"{name}: there is no {time}{there} on {day}. It runs at {shown}."
        at = odd.at.astimezone(rehearsal.zone)
        yield Finding(FindingKind.CLOCKS, at, 1, (odd.key,), sentence)


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


_SOME_DAY = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class PushDay:
    """A day of the phone's server, which counts by the clock of UTC; `first` is its first message.

    `total` counts the messages with those that take a card off the phone again, and `must` those
    that must come. `missing` would not come there: it takes no more of them on that day. `jobs`
    counts the messages of each job.
    """

    day: date
    first: datetime
    total: int = 0
    must: int = 0
    missing: int = 0
    jobs: Counter[JobKey] = field(default_factory=Counter)

    def add(self, job: ScheduledJob, *, is_clear: bool) -> None:
        """Play one message. What takes a card off is left out where there is no room for it."""
        must = job.must and not is_clear
        is_full = self.total - self.missing >= (PER_DAY if must else PER_DAY - KEPT_FOR_MUST)
        if is_clear and is_full:
            return
        self.total += 1
        self.must += must
        self.missing += is_full
        self.jobs[key_of(job)] += 1


def push_days(rehearsal: Rehearsal) -> Sequence[PushDay]:
    """The days on which the phone would get something; none if no phone is paired.

    Each card is taken to come as often as it can.
    """
    if rehearsal.pushes is None:
        return ()
    days: dict[date, PushDay] = {}
    pushed = _pushed(rehearsal.fires, rehearsal.pushes, rehearsal.length)
    for at, job, is_card in sorted(pushed, key=itemgetter(0)):
        day = days.setdefault(at.date(), PushDay(at.date(), at))
        day.add(job, is_clear=False)
        if is_card:
            day.add(job, is_clear=True)
    return [*days.values()]


def _pushed(
    fires: Iterable[Fire], what: PushWhat, length: timedelta
) -> Iterator[tuple[datetime, ScheduledJob, bool]]:
    """The moment and the job of each message, and whether it is a card, which is taken off."""
    rules: dict[int, _Rule] = {}
    digests: set[datetime] = set()
    for fire in fires:
        job = fire.job
        rule = rules.get(id(job)) or rules.setdefault(id(job), _Rule.of(job, what))
        if rule.heads_up:
            yield from ((at, job, False) for at in fire.heads_ups)
        if fire.ping is Ping.HELD and fire.quiet_until is not None and not fire.is_held_turn:
            end = fire.quiet_until.astimezone(UTC)
            if rule.digest and end not in digests:
                digests.add(end)
                yield end, job, False
            continue
        at, is_sent = fire.starts or fire.at, fire.ping in (Ping.SENT, Ping.ORDERED)
        is_said = fire.starts is not None and (is_sent or not job.spec.background)
        if rule.said and is_said:
            yield at + length, job, False
        if rule.card and is_sent:
            yield from ((moment, job, True) for moment in (at, *fire.again))


@dataclass(frozen=True, slots=True)
class _Rule:
    """Which messages of a job ring: its cards, its pings or answers, its heads-ups, a digest."""

    card: bool
    said: bool
    heads_up: bool
    digest: bool

    @classmethod
    def of(cls, job: ScheduledJob, what: PushWhat) -> _Rule:
        is_turn = not (job.spec.background or job.spec.plain)
        moment = occurrence_at(job, _SOME_DAY)

        def rings(occurrence: str, author: Author, name: str = "", *, card: bool = False) -> bool:
            sample = ChatMessage(
                MessageId(name),
                _SOME_DAY,
                author,
                "",
                card=Card("") if card else None,
                job=job.spec.short_title,
                occurrence=occurrence,
                must=job.must and bool(occurrence),
            )
            return is_pushed(sample, what)

        author = Author.ASSISTANT if is_turn else Author.BACKGROUND
        return cls(
            card=job.asks and rings(moment.id, Author.BACKGROUND, card=True),
            said=(is_turn or not job.asks) and rings("", author),
            heads_up=rings(moment.before(timedelta(minutes=1)).id, Author.BACKGROUND),
            digest=rings("", Author.BACKGROUND, OF_DIGEST),
        )
