"""The files are looked at every ten seconds, and seldom where that is much work for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scheduling.desk import NOW, Desk, routine
from tests.scheduling.year import Beats
from tests.stores import memory_stores

from ollim_bot.domain.jobs import JobSpec, Reminder
from ollim_bot.domain.schedule import JobKey, key_of
from ollim_bot.schedule.due_jobs import DueJobs
from ollim_bot.schedule.heads_ups import HeadsUps
from ollim_bot.schedule.job_index import Changes, IndexedJob, rest_after
from ollim_bot.schedule.ledger_records import ArmedJobs, Heartbeat, ScheduleRecords
from ollim_bot.schedule.nags import Nags
from ollim_bot.schedule.owner_zone import OwnerZone
from ollim_bot.schedule.scheduler import Scheduler
from ollim_bot.schedule.watcher import SCAN_SECONDS
from ollim_bot.store.job_files import JobFileChanges
from ollim_bot.testing.clock import ManualClock

LIMIT = 60


@dataclass
class Watching:
    """Doubles `Watcher`: only the clock wakes who waits for it."""

    clock: ManualClock
    is_calm: bool

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def wait(self, at_most: float) -> bool:
        await self.clock.sleep(at_most)
        return self.is_calm

    def wake(self) -> None:
        """The clock wakes it soon enough."""


@dataclass
class Book:
    """Doubles `JobIndex`: nothing ever changes. Notes when it was looked at."""

    clock: ManualClock
    found: Changes
    jobs: dict[JobKey, IndexedJob] = field(default_factory=dict)
    looks: list[float] = field(default_factory=list)

    def remember(self, armed: Mapping[JobKey, str]) -> None:
        assert armed == {}

    async def refresh(self) -> Changes:
        self.looks.append(self.clock.monotonic())
        return self.found


class Nobody:
    """Doubles `Dispatcher` and `RunRequests`."""

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
async def looking(book: Book, nobody: Nobody, *, is_calm: bool) -> AsyncIterator[Scheduler]:
    double, watching = cast("Any", nobody), cast("Any", Watching(book.clock, is_calm))
    stores = memory_stores(book.clock.now())
    zone = book.clock.now().tzinfo
    assert zone is not None
    own = cast("Any", book)
    beats = cast("Any", Beats())
    files = JobFileChanges(stores.state, stores.shelves)
    store = stores.state
    scheduler = Scheduler(
        own,
        watching,
        files,
        (
            Nags(store, double),
            HeadsUps(store, own, double, book.clock),
            DueJobs(store, own, double, double, files, book.clock),
        ),
        [],
        ScheduleRecords(
            ArmedJobs(store, book.clock),
            Heartbeat(store, beats),
            OwnerZone(store, book.clock, zone),
        ),
        book.clock,
    )
    running = asyncio.create_task(scheduler.run())
    try:
        async with asyncio.timeout(LIMIT):
            while not book.clock.sleeping:
                await asyncio.to_thread(lambda: None)
            book.looks.clear()
            yield scheduler
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def minute(book: Book) -> None:
    for _ in range(60):
        await book.clock.advance(1)
        while not book.clock.sleeping:
            await asyncio.to_thread(lambda: None)


@pytest.mark.parametrize(
    ("is_calm", "rest", "looks"), [(True, 25.0, 2), (True, 10.0, 6), (False, 25.0, 6)]
)
async def test_while_the_system_tells_all_a_costly_look_waits_longer(
    *, is_calm: bool, rest: float, looks: int
) -> None:
    clock = ManualClock(NOW)
    book = Book(clock, Changes(rest=rest))
    async with looking(book, Nobody(), is_calm=is_calm):
        await clock.advance(SCAN_SECONDS)
        while not (book.looks and clock.sleeping):
            await asyncio.to_thread(lambda: None)
        book.looks.clear()
        await minute(book)
    assert len(book.looks) == looks


async def test_what_comes_with_time_is_looked_at_in_time() -> None:
    book = Book(ManualClock(NOW), Changes(rest=25.0, look_again_in=2.0))
    async with looking(book, Nobody(), is_calm=True):
        await minute(book)
    assert len(book.looks) >= 25


async def test_the_clock_is_looked_at_all_the_same() -> None:
    book = Book(ManualClock(NOW), Changes(rest=60.0))
    async with looking(book, Nobody(), is_calm=True) as scheduler:
        for _ in range(5):
            await minute(book)
            assert scheduler.heartbeat_age is not None
            assert scheduler.heartbeat_age <= SCAN_SECONDS


async def test_right_before_something_is_due_the_files_are_looked_at() -> None:
    clock, nobody = ManualClock(NOW), Nobody()
    due = Reminder(JobSpec(id="tea", message="Tea."), clock.now() + timedelta(seconds=33))
    jobs = {key_of(due): IndexedJob(due, Path("tea.md"))}
    book = Book(clock, Changes(rest=60.0), jobs)
    async with looking(book, nobody, is_calm=True):
        await minute(book)
    assert nobody.fired == 1
    assert 33.0 in book.looks


@given(st.floats(0, 1000))
def test_a_look_takes_little_of_a_core_and_comes_within_a_minute(took: float) -> None:
    rest = rest_after(took)
    assert SCAN_SECONDS <= rest <= 60
    assert took / rest <= 0.002 or rest == 60
    assert rest == SCAN_SECONDS or took > 0.02


async def test_a_look_that_finds_something_is_no_measure_of_those_that_do_not(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path / "data")
    for number in range(2000):
        (desk.paths.routines / f"r{number}.md").write_text(routine(f"r{number}"))
    assert (await desk.looked()).rest == SCAN_SECONDS
