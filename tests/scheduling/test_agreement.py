"""The rehearsal and the dispatcher lead each occurrence to the same end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.background.scene import NOW, Scene, WatchedEngine, scene

from ollim_bot.conversation.disk_gate import DiskGate
from ollim_bot.conversation.jobs.manual_runs import ManualRuns
from ollim_bot.domain.cron import Cron
from ollim_bot.domain.decision import WITHDRAWN
from ollim_bot.domain.forward_schedule import UpcomingSchedule
from ollim_bot.domain.jobs import Job, JobSpec, Reminder, Routine
from ollim_bot.domain.occurrences import Occurrence, OccurrenceState
from ollim_bot.domain.owner_choices import Skips
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.rehearsal import Assumptions, Fire, Guess, rehearse
from ollim_bot.domain.schedule import JobKey, ScheduledJob, key_of, occurrence_at
from ollim_bot.schedule.circumstances import DueOccurrence, JobRunners
from ollim_bot.schedule.dispatch import Dispatcher
from ollim_bot.schedule.must_deliveries import MustDeliveries
from ollim_bot.store.job_files import JobFileChanges
from ollim_bot.testing.engine import Waits

MINUTE = timedelta(minutes=1)
MOMENTS = 3


class Given(NamedTuple):
    """Runs never end, so that of a routine the second moment overlaps with the first run."""

    jobs: tuple[ScheduledJob, ...]
    pings_left: int
    skipped: frozenset[int]


@dataclass
class Line:
    """Doubles `ForegroundJobs` and `ReminderDelivery`: what stands in line is never done."""

    begun: set[Occurrence] = field(default_factory=set)

    def has(self, _: Occurrence) -> bool:
        return False

    async def run(self, _: Job, one: Occurrence, *, late_since: datetime | None) -> OccurrenceState:
        self.begun.add(one)
        await asyncio.Event().wait()
        raise AssertionError(late_since)

    async def deliver(self, *_: object) -> bool:
        return True

    async def withdraw(self, _: Occurrence) -> None: ...


def spec(number: int, given: dict[str, Any]) -> JobSpec:
    return JobSpec(id=f"job-{number}", message="Look.", **given)


specs = st.fixed_dictionaries(
    {
        "background": st.booleans(),
        "must": st.booleans(),
        "allow_ping": st.booleans(),
        "set_by": st.none() | st.just("routine:plan"),
        "allowed_tools": st.sampled_from([(), ("Bash(*)",)]),
        "skills": st.sampled_from([(), ("cooking",)]),
    }
)
kinds = st.sampled_from(["* * * * *", "*/2 * * * *", ""])


def job(number: int, cron: str, given: dict[str, Any]) -> ScheduledJob:
    if cron:
        return Routine(spec(number, {**given, "must": False}), Cron.parse(cron))
    return Reminder(spec(number, given), NOW + MINUTE)


@st.composite
def worlds(draw: st.DrawFn) -> Given:
    drawn = draw(st.lists(st.tuples(kinds, specs), min_size=1, max_size=3))
    jobs = tuple(job(number, *each) for number, each in enumerate(drawn))
    return Given(jobs, draw(st.integers(0, 2)), draw(st.frozensets(st.integers(0, 8), max_size=3)))


def wishes(given: Given) -> Iterable[Occurrence]:
    for number in given.skipped:
        one = given.jobs[number % len(given.jobs)]
        if isinstance(one, Routine):
            yield occurrence_at(one, NOW + (1 + number // 3) * MINUTE)


def skips(given: Given) -> Skips:
    known = Skips()
    for one in wishes(given):
        known = known.with_moment(one, NOW)
    return known


def rehearsed(given: Given, stage: Scene) -> Sequence[Fire]:
    config = stage.stores.config.read().with_value("bg_fork_timeout", 86400)
    assumed = Assumptions(
        NOW,
        UTC,
        stage.store.run(lambda tx: tx.budget.get()),
        config.with_value("bg_concurrency", 10),
        skills=frozenset(),
        is_skipped=skips(given).has,
    )
    found = rehearse(given.jobs, assumed, 1, guess=Guess(timedelta(days=1)), most=40)
    last = NOW + MOMENTS * MINUTE
    return sorted((fire for fire in found.fires if fire.due <= last), key=lambda fire: fire.at)


def foretold(fire: Fire) -> str:
    # A foreground reminder stands in line until its deadline, also if its turn never comes.
    if fire.state is OccurrenceState.SKIPPED and not is_withdrawn(fire):
        return f"skipped: {fire.reason}"
    return "background" if fire.job.spec.background else "foreground"


def is_withdrawn(fire: Fire) -> bool:
    is_foreground = fire.is_ordered and not fire.job.spec.background
    return is_foreground and fire.reason is WITHDRAWN.reason


class NotedEnds(ManualRuns):
    def __init__(self) -> None:
        super().__init__()
        self._ends: Counter[JobKey] = Counter()
        self._seen: Counter[JobKey] = Counter()

    def note_end(self, key: JobKey) -> None:
        super().note_end(key)
        self._ends[key] += 1

    def has_more(self, key: JobKey) -> bool:
        """Whether another occurrence of the job has ended since this was last true."""
        is_more = self._ends[key] > self._seen[key]
        self._seen[key] = self._ends[key]
        return is_more


async def dispatched(given: Given, stage: Scene, fires: Sequence[Fire]) -> list[str]:
    line = Line()
    await stage.stores.state.transact(lambda tx: tx.skips.put(skips(given)))
    stage.configure(bg_concurrency=10)
    double, ends = cast("Any", line), NotedEnds()
    gate = DiskGate(stage.store, stage.notices, stage.clock)
    files = JobFileChanges(stage.store, stage.stores.shelves)
    dispatcher = Dispatcher(
        stage.store,
        gate,
        JobRunners(double, stage.runs, double),
        MustDeliveries(double, gate, files, stage.clock),
        stage.clock,
        lambda _: UpcomingSchedule(NOW, 3),
        ends,
    )
    found = []
    try:
        for fire in fires:
            await stage.clock.advance((fire.at - stage.clock.now()).total_seconds())
            due = DueOccurrence(fire.job, occurrence_at(fire.job, fire.due))
            await dispatcher.claim_and_start(due).wait()
            found.append(await fate(stage, line, due.occurrence))
            if isinstance(fire.job, Routine) and found[-1].startswith("skipped"):
                # Its task goes on after the row, and would count as a run that overlaps.
                await stage.until(partial(ends.has_more, key_of(fire.job)))
        return found
    finally:
        await dispatcher.close()
        closing = asyncio.create_task(stage.runs.close())
        while not closing.done():
            await stage.clock.advance(5)
            await asyncio.sleep(0)


async def fate(stage: Scene, line: Line, one: Occurrence) -> str:
    def said() -> str:
        if one in line.begun:
            return "foreground"
        for row in stage.rows:
            if row.occurrence == one and row.state == "running":
                return "background"
            if row.occurrence == one and row.state == "skipped":
                return f"skipped: {row.facts['reason']}"
        return ""

    await stage.until(said)
    return said()


async def both(given: Given) -> tuple[list[str], list[str]]:
    engine = WatchedEngine()
    for _ in range(20):
        engine.then(Waits())

    def limited(budget: PingBudget) -> PingBudget:
        left = given.pings_left
        resized = budget.resized(NOW, capacity=max(left, 1), refill_rate_minutes=90)
        return resized if left else resized.spent(NOW)[0]

    async with scene(engine) as stage:
        stage.store.run(lambda tx: tx.budget.change(limited))
        fires = rehearsed(given, stage)
        return [foretold(fire) for fire in fires], await dispatched(given, stage, fires)


@settings(deadline=None)
@given(worlds())
def test_the_dispatcher_does_with_each_occurrence_what_the_rehearsal_says(given: Given) -> None:
    says, does = asyncio.run(both(given))
    assert does == says
