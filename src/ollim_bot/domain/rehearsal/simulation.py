"""Simulates the schedule of the coming days."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from heapq import heappop, heappush, merge
from itertools import count, groupby, islice

from ollim_bot.domain.catch_up import catch_up
from ollim_bot.domain.decision import (
    BETWEEN_LATE_RUNS,
    WITHDRAWN,
    Circumstances,
    Decision,
    DeliverPlainly,
    RunInBackground,
    RunInForeground,
    Skip,
    WaitForQuietEnd,
    decide,
    deliver_by,
    is_unwanted,
    needs_ping_token,
    run_priority,
)
from ollim_bot.domain.jobs import Reminder, Routine, is_ordered
from ollim_bot.domain.occurrences import Occurrence, OccurrenceState, SkipReason
from ollim_bot.domain.pings import PingBudget, PingRefused, charged
from ollim_bot.domain.quiet import QuietSettings, quiet_until
from ollim_bot.domain.repeats import AfterDone, Rhythm
from ollim_bot.domain.runs import Run, RunPolicy
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.domain.schedule import (
    ScheduledJob,
    is_late,
    key_of,
    moments_between,
    next_due,
    occurrence_at,
)


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What a rehearsal starts from. `zone` is the owner's.

    With `watched_until`, the bot ran until that moment and starts `now`. `skills` are the skills
    that exist; None means that all do. `is_skipped` tells what the owner wants skipped. `quiet`
    says when it is quiet; None means never.
    """

    now: datetime
    zone: tzinfo
    budget: PingBudget
    config: RuntimeConfig
    watched_until: datetime | None = None
    skills: Set[str] | None = None
    is_skipped: Callable[[Occurrence], bool] | None = None
    quiet: QuietSettings | None = None

    def quiet_until(self, moment: datetime) -> datetime | None:
        """When the quiet ends that holds at `moment`; None if none does."""
        return None if self.quiet is None else quiet_until(self.quiet, moment)


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


class Simulation:
    """Plays fires in order, each by `decide`. `budgets` are that of the start and each paid one.

    At one instant, fires come before the ends of runs: a run that lasts exactly until the next
    moment of its job is still running then, because it began slightly after its own moment.
    """

    def __init__(self, given: Assumptions, length: timedelta) -> None:
        self._given = given
        self._budget = given.budget
        self.budgets = [given.budget.refilled(given.now.astimezone(given.zone))]
        self._length = length
        self._order = count()
        self._going: list[tuple[datetime, int, Fire]] = []
        self._waiting: list[tuple[tuple[int, float], int, Fire]] = []
        self._held_turns: dict[str, Fire] = {}
        self._routines: set[str] = set()
        self._running = 0
        self._conversation_free_at: datetime | None = None

    def through(self, fires: Iterable[Fire]) -> None:
        """Write the outcome into each fire; the fires must be in order."""
        for fire in fires:
            self._end_all(fire.at)
            if fire.state is OccurrenceState.DONE:
                self._fire(fire)
        self._end_all(None)

    def _fire(self, fire: Fire) -> None:
        fire.ping = Ping.ORDERED if fire.is_ordered else Ping.NONE
        fire.quiet_until = self._given.quiet_until(fire.at)
        decision = self._decided(fire)
        match decision:
            case RunInForeground():
                self._replace_held_turn(fire)
                self._take_turn(fire)
            case WaitForQuietEnd():
                self._replace_held_turn(fire)
                fire.ping = Ping.HELD
                self._held_turns[fire.job.spec.id] = fire
            case RunInBackground():
                self._queue(fire)
            case DeliverPlainly():
                fire.starts = fire.at
                if fire.quiet_until is not None and not fire.job.must:
                    fire.ping = Ping.HELD
            case Skip():
                if is_unwanted(decision.reason, is_manual=False):
                    fire.ping = Ping.NONE
                _skip(fire, decision)
            case _:
                raise AssertionError(f"{decision} does not follow from a rehearsal")
        if not (isinstance(decision, Skip) and is_unwanted(decision.reason, is_manual=False)):
            self._around(fire)

    def _around(self, fire: Fire) -> None:
        """Add the heads-ups, and the further times of what the owner gets."""
        given, spec = self._given, fire.job.spec
        found = (fire.due - length for length in spec.before)
        fire.heads_ups = tuple(
            at
            for at in found
            if at > given.now and (fire.job.must or given.quiet_until(at) is None)
        )
        if spec.nag is not None and fire.ping is not Ping.NONE:
            numbers = range(1, spec.nag.times + 1)
            fire.again = tuple(fire.at + spec.nag.pause * number for number in numbers)

    def _decided(self, fire: Fire) -> Decision:
        given = self._circumstances(fire)
        decision = decide(fire.job, given)
        if isinstance(decision, RunInBackground) and needs_ping_token(fire.job, is_manual=False):
            now = fire.at.astimezone(self._given.zone)
            self._budget, is_paid = self._budget.set_aside(_name(fire), now)
            self.budgets += [self._budget] if is_paid else []
            fire.ping = Ping.NONE if is_paid else Ping.REFUSED
            return decide(fire.job, given._replace(has_ping_token=is_paid))
        return decision

    def _circumstances(self, fire: Fire) -> Circumstances:
        given, job = self._given, fire.job
        wish = given.is_skipped
        return Circumstances(
            fire.due,
            fire.at,
            given.zone,
            is_skipped=wish is not None and wish(occurrence_at(job, fire.due)),
            is_running=isinstance(job, Routine) and job.spec.id in self._routines,
            missing_skills=self._missing_skills(job),
            quiet_until=fire.quiet_until,
        )

    def _missing_skills(self, job: ScheduledJob) -> Sequence[str]:
        there = self._given.skills
        if there is None or not job.spec.skills:
            return ()
        return [name for name in job.spec.skills if name not in there]

    def _replace_held_turn(self, fire: Fire) -> None:
        """Of a routine, only the newest turn waits for the end of the quiet."""
        older = self._held_turns.pop(fire.job.spec.id, None)
        if older is not None and isinstance(fire.job, Routine):
            older.ping = Ping.NONE
            _skip(older, Skip(SkipReason.QUIET))

    def _release_turns(self, before: datetime | None) -> None:
        for name, fire in [*self._held_turns.items()]:
            if before is None or (fire.quiet_until is not None and fire.quiet_until < before):
                self._take_turn(self._held_turns.pop(name))

    def _take_turn(self, fire: Fire) -> None:
        """Take the next turn of the conversation, or deliver plainly if that comes too late."""
        may_start = fire.quiet_until if fire.is_held_turn else None
        starts = max(may_start or fire.at, self._conversation_free_at or fire.at)
        if fire.is_ordered and starts > deliver_by(fire.due, fire.at):
            _skip(fire, WITHDRAWN)
            return
        self._go(fire)
        fire.starts = starts
        self._conversation_free_at = starts + self._length
        heappush(self._going, (self._conversation_free_at, next(self._order), fire))

    def _queue(self, fire: Fire) -> None:
        self._go(fire)
        rank = run_priority(fire.job, fire.due)
        heappush(self._waiting, (rank, next(self._order), fire))
        self._call_up(fire.at)

    def _go(self, fire: Fire) -> None:
        if isinstance(fire.job, Routine):
            self._routines.add(fire.job.spec.id)

    def _call_up(self, now: datetime) -> None:
        while self._waiting and self._running < self._given.config.bg_concurrency:
            _, _, fire = heappop(self._waiting)
            self._running += 1
            fire.starts = now
            heappush(self._going, (now + self._length, next(self._order), fire))

    def _end_all(self, before: datetime | None) -> None:
        self._release_turns(before)
        while self._going and (before is None or self._going[0][0] < before):
            now, _, fire = heappop(self._going)
            if isinstance(fire.job, Routine):
                self._routines.discard(fire.job.spec.id)
            if fire.job.spec.background:
                self._ping(fire, now)
                self._running -= 1
                self._call_up(now)

    def _ping(self, fire: Fire, now: datetime) -> None:
        if fire.is_ordered or not fire.job.spec.allow_ping:
            return
        name = _name(fire) if self._budget.held else ""
        self._budget, verdict = charged(
            self._budget,
            Run(RunPolicy.of_job(fire.job, ()), now, occurrence=name),
            now.astimezone(self._given.zone),
            wants_critical=False,
            is_busy=False,
            daily_cap=self._given.config.critical_daily_cap,
        )
        fire.quiet_until = self._given.quiet_until(now)
        if isinstance(verdict, PingRefused):
            fire.ping = Ping.REFUSED
        else:
            self.budgets.append(self._budget)
            fire.ping = Ping.SENT if fire.quiet_until is None else Ping.HELD


def _name(fire: Fire) -> str:
    return occurrence_at(fire.job, fire.due).id


def _skip(fire: Fire, skip: Skip) -> None:
    fire.state, fire.reason = OccurrenceState.SKIPPED, skip.reason


MOST_FIRES = 200_000


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """`fires` are in the order in which they are due, until `until`.

    `places` is the number of parallel background runs. `superseded` counts missed moments that gave
    way to a later moment of their job. `now` and `until` are in the owner's zone. `budgets` are the
    ping budget at the beginning and after each payment.
    """

    now: datetime
    until: datetime
    zone: tzinfo
    guess: AssumedRuns
    places: int
    fires: tuple[Fire, ...]
    superseded: int
    is_whole: bool
    budgets: tuple[PingBudget, ...] = ()

    @property
    def dry_days(self) -> frozenset[date]:
        """The days on which a ping would be refused for lack of budget."""
        refused = (fire for fire in self.fires if fire.ping is Ping.REFUSED)
        return frozenset(fire.due.astimezone(self.zone).date() for fire in refused)


def rehearse(
    jobs: Iterable[ScheduledJob],
    given: Assumptions,
    days: int,
    *,
    guess: AssumedRuns | None = None,
    most: int = MOST_FIRES,
) -> Rehearsal:
    """Everything that fires within `days`; fewer days if there are more than `most` fires."""
    longest = timedelta(seconds=given.config.bg_fork_timeout)
    guess = AssumedRuns(min((guess or AssumedRuns()).run, longest))
    alike = by_timing(sorted((job for job in jobs if job.spec.enabled), key=key_of), given.zone)
    start, end = given.now.astimezone(UTC), given.now.astimezone(UTC) + timedelta(days=days)
    begun, superseded = caught_up(alike, given)
    ordered = merge(begun, coming(alike, start, end, given.zone), key=lambda fire: fire.at)
    fires = [*islice(ordered, most + 1)]
    is_whole = len(fires) <= most
    if not is_whole:
        end = fires.pop().at
    simulation = Simulation(given, guess.run)
    simulation.through(fires)
    fires.sort(key=lambda fire: fire.due)
    return Rehearsal(
        now=given.now.astimezone(given.zone),
        until=end.astimezone(given.zone),
        zone=given.zone,
        guess=guess,
        places=given.config.bg_concurrency,
        fires=tuple(fires),
        superseded=superseded,
        is_whole=is_whole,
        budgets=tuple(simulation.budgets),
    )
