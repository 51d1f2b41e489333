"""The index is refreshed every ten seconds, and less often if a refresh is slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from devtools.doubles.clock import ManualClock
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.schedule.job_index_scene import NOW, JobIndexScene, routine
from tests.kernel.schedule.simulated_machine import MemoryHeartbeat
from tests.patience import patience
from tests.stores import memory_stores

from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.changes.job_files import JobFileChanges
from ollim_bot.kernel.schedule.due_jobs import DueJobs
from ollim_bot.kernel.schedule.extra_times import HeadsUps, Nags
from ollim_bot.kernel.schedule.job_index import AnswerPlans, Changes, IndexedJob, rest_after
from ollim_bot.kernel.schedule.ledger_records import (
    ArmedJobs,
    Heartbeat,
    OwnerZone,
    ScheduleRecords,
)
from ollim_bot.kernel.schedule.scheduler import Scheduler
from ollim_bot.kernel.schedule.watcher import SCAN_SECONDS
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.schedule import key_of


@dataclass
class ClockWatcher:
    """Doubles `Watcher`: only the clock ends a wait."""

    clock: ManualClock
    is_calm: bool
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def wait(self, at_most: float) -> bool:
        await self.clock.sleep(at_most)
        return self.is_calm


@dataclass
class UnchangingJobIndex:
    """Doubles `JobIndex`: no job ever changes. `refreshes` has the time of each refresh."""

    clock: ManualClock
    found: Changes
    jobs: dict[JobKey, IndexedJob] = field(default_factory=dict)
    days: dict[str, date] = field(default_factory=dict)
    refreshes: list[float] = field(default_factory=list)

    def remember(self, armed: Mapping[JobKey, str]) -> None:
        assert armed == {}

    async def refresh(self) -> Changes:
        self.refreshes.append(self.clock.monotonic())
        return self.found


class CountingDispatcher:
    """Doubles `Dispatcher` and `RunRequests`: counts the occurrences and runs none."""

    fired: int = 0

    def claim_and_start(self, _: object) -> asyncio.Event:
        self.fired += 1
        claimed = asyncio.Event()
        claimed.set()
        return claimed

    async def serve_manual_runs(self) -> None: ...

    async def run(self) -> None: ...

    async def close(self) -> None: ...


@asynccontextmanager
async def scheduling(
    index: UnchangingJobIndex, dispatcher: CountingDispatcher, *, is_calm: bool
) -> AsyncIterator[Scheduler]:
    double, watcher = cast("Any", dispatcher), cast("Any", ClockWatcher(index.clock, is_calm))
    stores = memory_stores(index.clock.now())
    zone = index.clock.now().tzinfo
    assert zone is not None
    job_index = cast("Any", index)
    heartbeat = cast("Any", MemoryHeartbeat())
    files = JobFileChanges(stores.state, stores.repositories)
    store = stores.state
    scheduler = Scheduler(
        job_index,
        watcher,
        files,
        (
            Nags(store, job_index),
            HeadsUps(store, job_index, double, index.clock),
            DueJobs(store, job_index, double, double, files, index.clock),
        ),
        [],
        ScheduleRecords(
            ArmedJobs(store, index.clock),
            Heartbeat(store, heartbeat),
            OwnerZone(store, index.clock, zone),
        ),
        AnswerPlans(store, job_index, index.clock),
        index.clock,
    )
    running = asyncio.create_task(scheduler.run())
    try:
        async with asyncio.timeout(patience()):
            while not index.clock.sleeping:
                await asyncio.to_thread(lambda: None)
            index.refreshes.clear()
            yield scheduler
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def advance_a_minute(index: UnchangingJobIndex) -> None:
    for _ in range(60):
        await index.clock.advance(1)
        while not index.clock.sleeping:
            await asyncio.to_thread(lambda: None)


@pytest.mark.parametrize(
    ("is_calm", "rest", "refreshes"), [(True, 25.0, 2), (True, 10.0, 6), (False, 25.0, 6)]
)
async def test_while_the_system_tells_all_a_costly_look_waits_longer(
    *, is_calm: bool, rest: float, refreshes: int
) -> None:
    clock = ManualClock(NOW)
    index = UnchangingJobIndex(clock, Changes(rest=rest))
    async with scheduling(index, CountingDispatcher(), is_calm=is_calm):
        await clock.advance(SCAN_SECONDS)
        while not (index.refreshes and clock.sleeping):
            await asyncio.to_thread(lambda: None)
        index.refreshes.clear()
        await advance_a_minute(index)
    assert len(index.refreshes) == refreshes


async def test_what_comes_with_time_is_looked_at_in_time() -> None:
    index = UnchangingJobIndex(ManualClock(NOW), Changes(rest=25.0, look_again_in=2.0))
    async with scheduling(index, CountingDispatcher(), is_calm=True):
        await advance_a_minute(index)
    assert len(index.refreshes) >= 25


async def test_the_clock_is_looked_at_all_the_same() -> None:
    index = UnchangingJobIndex(ManualClock(NOW), Changes(rest=60.0))
    async with scheduling(index, CountingDispatcher(), is_calm=True) as scheduler:
        for _ in range(5):
            await advance_a_minute(index)
            assert scheduler.heartbeat_age is not None
            assert scheduler.heartbeat_age <= SCAN_SECONDS


async def test_right_before_something_is_due_the_files_are_looked_at() -> None:
    clock, dispatcher = ManualClock(NOW), CountingDispatcher()
    due = Reminder(JobSpec(id="tea", message="Tea."), clock.now() + timedelta(seconds=33))
    jobs = {key_of(due): IndexedJob(due, Path("tea.md"))}
    index = UnchangingJobIndex(clock, Changes(rest=60.0), jobs)
    async with scheduling(index, dispatcher, is_calm=True):
        await advance_a_minute(index)
    assert dispatcher.fired == 1
    assert 33.0 in index.refreshes


@given(st.floats(0, 1000))
def test_a_look_takes_little_of_a_core_and_comes_within_a_minute(took: float) -> None:
    rest = rest_after(took)
    assert SCAN_SECONDS <= rest <= 60
    assert took / rest <= 0.002 or rest == 60
    assert rest == SCAN_SECONDS or took > 0.02


async def test_a_look_that_finds_something_is_no_measure_of_those_that_do_not(
    tmp_path: Path,
) -> None:
    scene = JobIndexScene(tmp_path / "data")
    for number in range(2000):
        (scene.paths.routines / f"r{number}.md").write_text(routine(f"r{number}"))
    assert (await scene.refresh()).rest == SCAN_SECONDS
