"""Simulates the schedule of the coming days."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from heapq import heappop, heappush, merge
from itertools import count, groupby, islice

from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.base.moments import WEEKDAYS
from ollim_bot.kernel.base.text import joined
from ollim_bot.kernel.values.catch_up_decision import catch_up
from ollim_bot.kernel.values.decision import (
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
    needs_ping_token,
    run_priority,
)
from ollim_bot.kernel.values.jobs import Reminder, Routine, is_ordered
from ollim_bot.kernel.values.occurrences import Occurrence, OccurrenceState, SkipReason, is_unwanted
from ollim_bot.kernel.values.pings import PingBudget, PingRefused, charged
from ollim_bot.kernel.values.quiet import QuietSettings, quiet_spans, quiet_until
from ollim_bot.kernel.values.repeats import AfterDone, Rhythm
from ollim_bot.kernel.values.runs import Run, RunPolicy
from ollim_bot.kernel.values.runtime_config import PushWhat, RuntimeConfig
from ollim_bot.kernel.values.schedule import (
    ScheduledJob,
    is_late,
    key_of,
    moments_between,
    next_due,
    occurrence_at,
)

MOST_FIRES = 200_000
USUAL_LENGTH = timedelta(minutes=2)
SEVERAL = 3
# More jobs would take a second to rehearse, and so many are sure to be due together.
MOST_ASKED = 1000
DAYS = 7


class _QuietTable:
    """Answers `quiet_until` for many moments from `now` on; the table reaches to `end`."""

    def __init__(self, given: Assumptions, end: datetime) -> None:
        self._settings, self._end = given.quiet, end
        spans = [] if given.quiet is None else quiet_spans(given.quiet, given.now, end)
        self._begins = [begin for begin, _ in spans]
        self._ends = [until for _, until in spans]
        self._shown = [until.astimezone(given.zone) for until in self._ends]

    def until(self, moment: datetime) -> datetime | None:
        """When the quiet ends that holds at `moment`; None if none does."""
        if moment >= self._end:
            return None if self._settings is None else quiet_until(self._settings, moment)
        place = bisect_right(self._begins, moment) - 1
        return self._shown[place] if place >= 0 and moment < self._ends[place] else None


@dataclass(slots=True)
class _Case:
    """What holds for every moment of a job; `decisions` are those that were made before.

    `run` is a run for which no token is reserved.
    """

    key: JobKey
    is_ordered: bool
    is_routine: bool
    needs_token: bool
    missing_skills: Sequence[str]
    run: Run
    decisions: dict[tuple[bool, ...], Decision] = field(default_factory=dict)


class Simulation:
    """Plays fires in order, each by `decide`, and writes the outcome into each.

    `budgets` are the ping budget at the beginning and after each payment.

    At one instant, fires come before the ends of runs: a run that lasts exactly until the next
    moment of its job is still running then, because it began slightly after its own moment.
    """

    def __init__(self, given: Assumptions, length: timedelta, end: datetime) -> None:
        self.budgets = [given.budget.refilled(given.now.astimezone(given.zone))]
        self._given = given
        self._length = length
        self._quiet = _QuietTable(given, end)
        self._cases: dict[int, _Case] = {}
        self._budget = given.budget
        self._going: list[tuple[datetime, int, Fire]] = []
        self._waiting: list[tuple[tuple[int, float], int, Fire]] = []
        # The turns that wait, by the end of their quiet.
        self._held: dict[JobKey, tuple[datetime, Fire]] = {}
        self._routines: set[str] = set()
        self._running = 0
        self._conversation_free_at: datetime | None = None
        self._order = count()

    def play(self, fires: Iterable[Fire]) -> None:
        """Play all of them, and end what they have begun."""
        for fire in fires:
            self._end_until(fire.at)
            if fire.state is OccurrenceState.DONE:
                self._fire(fire)
        self._end_until(None)

    def _end_until(self, before: datetime | None) -> None:
        """End the runs and the waits for the end of the quiet, in the order of their ends."""
        going, held = self._going, self._held
        while going or held:
            turn = next(iter(held.values()))[0] if held else None
            is_turn = turn is not None and (not going or turn <= going[0][0])
            first = turn if is_turn else going[0][0]
            if before is not None and first is not None and first >= before:
                return
            if is_turn:
                self._take_turn(held.pop(next(iter(held)))[1], turn)
            else:
                end, _, fire = heappop(going)
                self._end(end, fire)

    def _end(self, now: datetime, fire: Fire) -> None:
        if isinstance(fire.job, Routine):
            self._routines.discard(fire.job.spec.id)
        if fire.job.spec.background:
            self._ping(fire, now)
            self._running -= 1
            self._call_up(now)

    def _fire(self, fire: Fire) -> None:
        case = self._case_of(fire.job)
        fire.ping = Ping.ORDERED if case.is_ordered else Ping.NONE
        fire.quiet_until = self._quiet.until(fire.at)
        decision = self._decided(fire, case)
        match decision:
            case DeliverPlainly():
                fire.starts = fire.at
                if fire.quiet_until is not None and not fire.job.must:
                    fire.ping = Ping.HELD
            case RunInBackground():
                self._note_routine(fire)
                rank = run_priority(fire.job, fire.due)
                heappush(self._waiting, (rank, next(self._order), fire))
                self._call_up(fire.at)
            case RunInForeground():
                self._drop_held_turn(case)
                self._take_turn(fire)
            case WaitForQuietEnd():
                self._drop_held_turn(case)
                assert fire.quiet_until is not None
                fire.ping = Ping.HELD
                self._held[case.key] = fire.quiet_until.astimezone(UTC), fire
            case Skip():
                self._skip(fire, decision)
                if is_unwanted(decision.reason, is_manual=False):
                    fire.ping = Ping.NONE
                    return
            case _:
                raise AssertionError(f"{decision} does not follow from a rehearsal")
        # Add the heads-ups, and the further times of what the owner gets.
        spec = fire.job.spec
        if spec.before:
            found = (fire.due - length for length in spec.before)
            fire.heads_ups = tuple(
                at
                for at in found
                if at > self._given.now and (fire.job.must or self._quiet.until(at) is None)
            )
        if spec.nag is not None and fire.ping is not Ping.NONE:
            numbers = range(1, spec.nag.times + 1)
            fire.again = tuple(fire.at + spec.nag.pause * number for number in numbers)

    def _case_of(self, job: ScheduledJob) -> _Case:
        case = self._cases.get(id(job))
        if case is None:
            there, skills = self._given.skills, job.spec.skills
            case = self._cases[id(job)] = _Case(
                key_of(job),
                is_ordered(job),
                isinstance(job, Routine),
                needs_ping_token(job, is_manual=False),
                [] if there is None else [name for name in skills if name not in there],
                Run(RunPolicy.of_job(job, ()), self._given.now),
            )
        return case

    def _decided(self, fire: Fire, case: _Case) -> Decision:
        decision = self._decided_with_token(fire, case, has_token=True)
        if case.needs_token and isinstance(decision, RunInBackground):
            now = fire.at.astimezone(self._given.zone)
            name = occurrence_at(fire.job, fire.due).id
            self._budget, is_paid = self._budget.set_aside(name, now)
            self.budgets += [self._budget] if is_paid else []
            fire.ping = Ping.NONE if is_paid else Ping.REFUSED
            return self._decided_with_token(fire, case, has_token=is_paid)
        return decision

    def _decided_with_token(self, fire: Fire, case: _Case, *, has_token: bool) -> Decision:
        """Decide once for all moments of a job alike: no rule reads the clock without absence."""
        wish, job = self._given.is_skipped, fire.job
        is_skipped = wish is not None and wish(occurrence_at(job, fire.due))
        is_running = case.is_routine and job.spec.id in self._routines
        alike = (is_skipped, is_running, fire.quiet_until is not None, has_token)
        decision = case.decisions.get(alike)
        if decision is None:
            circumstances = Circumstances(
                fire.due,
                fire.at,
                self._given.zone,
                is_skipped=is_skipped,
                is_running=is_running,
                missing_skills=case.missing_skills,
                has_ping_token=has_token,
                quiet_until=fire.quiet_until,
            )
            decision = case.decisions[alike] = decide(job, circumstances)
        return decision

    def _drop_held_turn(self, case: _Case) -> None:
        """Of a routine, only the newest turn waits for the end of the quiet."""
        held = self._held.pop(case.key, None)
        if held is not None:
            held[1].ping = Ping.NONE
            self._skip(held[1], Skip(SkipReason.QUIET))

    def _take_turn(self, fire: Fire, may_start: datetime | None = None) -> None:
        """Take the next turn of the conversation, or deliver plainly if that comes too late."""
        starts = max(may_start or fire.at, self._conversation_free_at or fire.at)
        if is_ordered(fire.job) and starts > deliver_by(fire.due, fire.at):
            self._skip(fire, WITHDRAWN)
            return
        self._note_routine(fire)
        fire.starts = starts
        self._conversation_free_at = starts + self._length
        self._go(fire, self._conversation_free_at)

    def _note_routine(self, fire: Fire) -> None:
        if isinstance(fire.job, Routine):
            self._routines.add(fire.job.spec.id)

    def _call_up(self, now: datetime) -> None:
        while self._waiting and self._running < self._given.config.bg_concurrency:
            _, _, fire = heappop(self._waiting)
            self._running += 1
            fire.starts = now
            self._go(fire, now + self._length)

    def _go(self, fire: Fire, end: datetime) -> None:
        heappush(self._going, (end, next(self._order), fire))

    def _ping(self, fire: Fire, now: datetime) -> None:
        case = self._case_of(fire.job)
        if case.is_ordered or not case.run.policy.allow_ping:
            return
        run = case.run
        if self._budget.held:
            run = Run(run.policy, now, occurrence=occurrence_at(fire.job, fire.due).id)
        self._budget, verdict = charged(
            self._budget,
            run,
            now.astimezone(self._given.zone),
            wants_critical=False,
            is_busy=False,
            daily_cap=self._given.config.critical_daily_cap,
        )
        fire.quiet_until = self._quiet.until(now)
        if isinstance(verdict, PingRefused):
            fire.ping = Ping.REFUSED
        else:
            self.budgets.append(self._budget)
            fire.ping = Ping.SENT if fire.quiet_until is None else Ping.HELD

    def _skip(self, fire: Fire, skip: Skip) -> None:
        fire.state, fire.reason = OccurrenceState.SKIPPED, skip.reason


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """`fires` are in the order in which they are due, until `until`.

    `length` is what each run is assumed to take; it pings once at its end. `places` is the number
    of parallel background runs. `superseded` counts missed moments that gave way to a later moment
    of their job. `now` and `until` are in the owner's zone. `budgets` are the ping budget at the
    beginning and after each payment. `pushes` is what rings on the owner's phone; None without one.
    """

    now: datetime
    until: datetime
    zone: tzinfo
    length: timedelta
    places: int
    fires: tuple[Fire, ...]
    superseded: int
    is_whole: bool
    budgets: tuple[PingBudget, ...] = ()
    pushes: PushWhat | None = None

    @property
    def jobs(self) -> dict[int, ScheduledJob]:
        """The jobs that come, by their identity."""
        return {id(fire.job): fire.job for fire in self.fires}

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
    length: timedelta = USUAL_LENGTH,
    most: int = MOST_FIRES,
) -> Rehearsal:
    """Everything that fires within `days`; fewer days if there are more than `most` fires.

    Each run takes the `length`, but no longer than it may.
    """
    length = min(length, timedelta(seconds=given.config.bg_fork_timeout))
    alike = by_timing(sorted((job for job in jobs if job.spec.enabled), key=key_of), given.zone)
    start, end = given.now.astimezone(UTC), given.now.astimezone(UTC) + timedelta(days=days)
    begun, superseded = caught_up(alike, given)
    ordered = merge(begun, coming(alike, start, end, given.zone), key=lambda fire: fire.at)
    fires = [*islice(ordered, most + 1)]
    is_whole = len(fires) <= most
    if not is_whole:
        end = fires.pop().at
    simulation = Simulation(given, length, end)
    simulation.play(fires)
    fires.sort(key=lambda fire: fire.due)
    return Rehearsal(
        now=given.now.astimezone(given.zone),
        until=end.astimezone(given.zone),
        zone=given.zone,
        length=length,
        places=given.config.bg_concurrency,
        fires=tuple(fires),
        superseded=superseded,
        is_whole=is_whole,
        budgets=tuple(simulation.budgets),
        pushes=given.pushes,
    )


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
    missed = (*plan.tell, *plan.skip)
    # Reminders that were due before, and whose files are still there.
    reminders = (job for same in alike.values() for job in same if isinstance(job, Reminder))
    dues = ((job, job.due(zone).astimezone(UTC)) for job in reminders)
    fires = [
        *(Fire(job, due, now) for job, due in dues if due <= watched_until),
        *(Fire(one.job, one.newest, now, OccurrenceState.MISSED) for one in missed),
        *(Fire(one.job, one.newest, now) for one in on_time),
        *(
            Fire(one.job, one.newest, now + number * BETWEEN_LATE_RUNS)
            for number, one in enumerate(late)
        ),
    ]
    return fires, sum(one.older_count for one in (*plan.run, *missed))


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
        found.append(f"The ping budget would run dry {which_days(days, today)}.")
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


def which_days(days: Sequence[date], today: date) -> str:
    """`today`, `on Tue`, `tomorrow and on Wed`, `on 5 days, first today`."""
    near = {today: "today", today + timedelta(days=1): "tomorrow"}
    names = [near.get(day) or f"on {WEEKDAYS[day.weekday()]}" for day in days]
    if len(names) > 3:
        return f"on {len(names)} days, first {names[0]}"
    return joined(names)
