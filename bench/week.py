"""A thousand jobs in a rehearsed week: what a draft of one of them changes, beside the loop."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from statistics import median

from tests.stores import Stores, memory_stores

from bench.measure import Result, seconds
from ollim_bot.cli.start import SWITCH_INTERVAL
from ollim_bot.clock import SystemClock
from ollim_bot.conversation.jobs.week_plans import KeptWeek, WeekPlans
from ollim_bot.domain.cron import Cron
from ollim_bot.domain.jobs import JobSpec, Routine
from ollim_bot.domain.rehearsal import findings
from ollim_bot.domain.rehearsal.findings import DAYS
from ollim_bot.domain.rehearsal.simulation import rehearse
from ollim_bot.domain.schedule import ScheduledJob

MANY = 1000
OFTEN = 12
ROUNDS = 5
LONGEST_PAUSE = 0.05
_TICK = 0.001

Draft = tuple[ScheduledJob | None, ScheduledJob | None]


def measure(folder: Path) -> list[Result]:  # noqa: ARG001
    return asyncio.run(_measured())


async def _measured() -> list[Result]:
    once, once_pause = await _differences(1, most=0.3)
    often, often_pause = await _differences(OFTEN, most=1.0)
    async with _pauses() as idle:
        await asyncio.sleep(1.0)
    pause = max(*once_pause, *often_pause)
    row = "the loop waits, beside a rehearsal"
    return [*once, *often, Result(row, pause, "beside nothing", max(idle), most=LONGEST_PAUSE)]


async def _differences(times: int, most: float) -> tuple[list[Result], Sequence[float]]:
    """The rows for jobs with so many moments a day, and the pauses of the loop meanwhile."""
    jobs = [_job(number, times) for number in range(MANY)]
    plans = await _plans(jobs)
    with _as_in_the_bot():
        async with _pauses() as pauses:
            began = time.perf_counter()
            kept = await plans.week()
            rehearsed = time.perf_counter() - began
            slowest = max([await _median_of(plans, draft) for draft in _drafts(jobs)])
    whole = median(seconds(lambda: _rehearse_twice(kept)) for _ in range(ROUNDS))
    name = f"difference, {MANY} jobs, {times} a day"
    base = "rehearsing before and after"
    return [
        Result(name, slowest, base, whole, most=most),
        Result(f"week rehearsed, {MANY} jobs, {times} a day", rehearsed, base, whole),
    ], pauses


def _job(number: int, times: int) -> Routine:
    """Of twenty jobs, one is a turn of the conversation, three ask a model, the others are sent.

    More runs of two minutes than that do not fit into a day of twelve moments.
    """
    kind = number % 20
    hours = ",".join(str((number + each * 24 // times) % 24) for each in range(times))
    spec = JobSpec(
        id=f"j{number}", message=f"do {number}", background=1 <= kind <= 3, plain=kind > 3
    )
    return Routine(spec, Cron.parse(f"{number % 60} {hours} * * *"))


def _drafts(jobs: Sequence[Routine]) -> Iterator[Draft]:
    """Other words, another moment and no job any more, of each kind; and one more job."""
    for job in (jobs[40], jobs[41], jobs[44]):
        yield job, replace(job, spec=replace(job.spec, message="something else"))
        yield job, replace(job, rhythm=Cron.parse("17 9 * * 1-5"))
        yield job, None
    yield None, replace(jobs[1], spec=replace(jobs[1].spec, id="new"))


async def _plans(jobs: Sequence[Routine]) -> WeekPlans:
    clock = SystemClock(UTC)
    stores: Stores = memory_stores(clock.now)
    for job in jobs:
        stores.routines.add(job)
    await stores.state.transact(
        lambda tx: tx.config.change(lambda old: old.with_value("quiet_hours", "22:00-07:00"))
    )
    plans = WeekPlans(stores.state, stores.repositories, frozenset, clock)
    await asyncio.sleep(_TICK)
    return plans


async def _median_of(plans: WeekPlans, draft: Draft) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await plans.difference(*draft)
        times.append(time.perf_counter() - began)
    return median(times)


def _rehearse_twice(kept: KeptWeek) -> None:
    for _ in range(2):
        findings(rehearse(kept.week.jobs.values(), kept.week.given, DAYS))


@contextmanager
def _as_in_the_bot() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)


@asynccontextmanager
async def _pauses() -> AsyncIterator[list[float]]:
    """How much longer than asked the loop slept, each time."""
    found = [0.0]

    async def tick() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(_TICK)
            found.append(time.perf_counter() - began - _TICK)

    ticking = asyncio.create_task(tick())
    try:
        yield found
    finally:
        ticking.cancel()
