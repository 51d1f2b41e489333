"""The rehearsal and the dispatcher lead each occurrence to the same end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, cast

from devtools.doubles.engine import Waits
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.conversation.background.scene import NOW, Scene, WatchedEngine, background_scene

from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.changes.job_files import JobFileChanges
from ollim_bot.kernel.conversation.foreground import JobRuns
from ollim_bot.kernel.conversation.notice_poster import DiskGate
from ollim_bot.kernel.schedule.dispatch import Dispatcher, DueOccurrence
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.decision import WITHDRAWN
from ollim_bot.kernel.values.jobs import Job, JobSpec, Reminder, Routine, is_ordered
from ollim_bot.kernel.values.occurrences import Occurrence, OccurrenceState
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.schedule import ScheduledJob, Skips, key_of, occurrence_at
from ollim_bot.kernel.values.simulation import Assumptions, Fire, rehearse
from ollim_bot.kernel.values.upcoming import UpcomingSchedule

MINUTE = timedelta(minutes=1)
MOMENTS = 3


class DispatchCase(NamedTuple):
    """No run ends, so that the second occurrence of a routine overlaps with the first."""

    jobs: tuple[ScheduledJob, ...]
    pings_left: int
    skipped: frozenset[int]


@dataclass
class EndlessForeground:
    """Doubles `ForegroundJobs` and `PlainDelivery`: no foreground run ever ends."""

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
def cases(draw: st.DrawFn) -> DispatchCase:
    drawn = draw(st.lists(st.tuples(kinds, specs), min_size=1, max_size=3))
    jobs = tuple(job(number, *each) for number, each in enumerate(drawn))
    return DispatchCase(
        jobs, draw(st.integers(0, 2)), draw(st.frozensets(st.integers(0, 8), max_size=3))
    )


def skipped_occurrences(given: DispatchCase) -> Iterable[Occurrence]:
    for number in given.skipped:
        one = given.jobs[number % len(given.jobs)]
        if isinstance(one, Routine):
            yield occurrence_at(one, NOW + (1 + number // 3) * MINUTE)


def skips(given: DispatchCase) -> Skips:
    known = Skips()
    for one in skipped_occurrences(given):
        known = known.with_moment(one, NOW)
    return known


def rehearsed(given: DispatchCase, scene: Scene) -> Sequence[Fire]:
    config = scene.stores.config.read().with_value("bg_fork_timeout", 86400)
    assumed = Assumptions(
        NOW,
        UTC,
        scene.store.run(lambda tx: tx.budget.get()),
        config.with_value("bg_concurrency", 10),
        skills=frozenset(),
        is_skipped=skips(given).has,
    )
    found = rehearse(given.jobs, assumed, 1, length=timedelta(days=1), most=40)
    last = NOW + MOMENTS * MINUTE
    return sorted((fire for fire in found.fires if fire.due <= last), key=lambda fire: fire.at)


def predicted(fire: Fire) -> str:
    # A foreground reminder waits in the queue until its deadline, even if it is never run.
    if fire.state is OccurrenceState.SKIPPED and not is_withdrawn(fire):
        return f"skipped: {fire.reason}"
    return "background" if fire.job.spec.background else "foreground"


def is_withdrawn(fire: Fire) -> bool:
    is_foreground = is_ordered(fire.job) and not fire.job.spec.background
    return is_foreground and fire.reason is WITHDRAWN.reason


class CountedEnds(JobRuns):
    def __init__(self) -> None:
        super().__init__()
        self._ends: Counter[JobKey] = Counter()
        self._seen: Counter[JobKey] = Counter()

    def track(self, task: asyncio.Task[None], key: JobKey) -> None:
        super().track(task, key)
        task.add_done_callback(lambda _: self._ends.update([key]))

    def has_more(self, key: JobKey) -> bool:
        """Whether another occurrence of the job has ended since the last call."""
        is_more = self._ends[key] > self._seen[key]
        self._seen[key] = self._ends[key]
        return is_more


async def dispatched(given: DispatchCase, scene: Scene, fires: Sequence[Fire]) -> list[str]:
    foreground = EndlessForeground()
    await scene.stores.state.transact(lambda tx: tx.skips.put(skips(given)))
    scene.configure(bg_concurrency=10)
    double, ends = cast("Any", foreground), CountedEnds()
    gate = DiskGate(scene.store, scene.notices, scene.clock)
    files = JobFileChanges(scene.store, scene.stores.repositories)
    dispatcher = Dispatcher(
        scene.store,
        gate,
        double,
        scene.runs,
        double,
        files,
        scene.clock,
        lambda _: UpcomingSchedule(NOW, 3),
        ends,
    )
    found = []
    try:
        for fire in fires:
            await scene.clock.advance((fire.at - scene.clock.now()).total_seconds())
            due = DueOccurrence(fire.job, occurrence_at(fire.job, fire.due))
            await dispatcher.claim_and_start(due).wait()
            found.append(await outcome(scene, foreground, due.occurrence))
            if isinstance(fire.job, Routine) and found[-1].startswith("skipped"):
                # Its task ends after the row; until then it counts as an overlapping run.
                await scene.until(partial(ends.has_more, key_of(fire.job)))
        return found
    finally:
        await dispatcher.close()
        closing = asyncio.create_task(scene.runs.close())
        while not closing.done():
            await scene.clock.advance(5)
            await asyncio.sleep(0)


async def outcome(scene: Scene, foreground: EndlessForeground, one: Occurrence) -> str:
    def said() -> str:
        if one in foreground.begun:
            return "foreground"
        for row in scene.rows:
            if row.occurrence == one and row.state == "running":
                return "background"
            if row.occurrence == one and row.state == "skipped":
                return f"skipped: {row.facts['reason']}"
        return ""

    await scene.until(said)
    return said()


async def both(given: DispatchCase) -> tuple[list[str], list[str]]:
    engine = WatchedEngine()
    for _ in range(20):
        engine.then(Waits())

    def limited(budget: PingBudget) -> PingBudget:
        left = given.pings_left
        resized = budget.resized(NOW, capacity=max(left, 1), refill_rate_minutes=90)
        return resized if left else resized.spent(NOW)[0]

    async with background_scene(engine) as scene:
        scene.store.run(lambda tx: tx.budget.change(limited))
        fires = rehearsed(given, scene)
        return [predicted(fire) for fire in fires], await dispatched(given, scene, fires)


@settings(deadline=None)
@given(cases())
def test_the_dispatcher_does_with_each_occurrence_what_the_rehearsal_says(
    given: DispatchCase,
) -> None:
    says, does = asyncio.run(both(given))
    assert does == says
