"""Ten thousand jobs of a running schedule: the start, a new file, an edit, and doing nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, cast

from devtools.doubles.journal import RecordingJournal
from tests.stores import Stores

from bench import bare_watch
from bench.bars import Bar
from bench.fixtures import new_database, prepared, write_reminders, write_routines
from bench.measure import Result, Unit, seconds
from ollim_bot.clock import SystemClock
from ollim_bot.conversation.jobs.foreground import JobRuns
from ollim_bot.domain.run_history import ARMED, CHANGED
from ollim_bot.paths import DataPaths
from ollim_bot.schedule.answer_plans import AnswerPlans
from ollim_bot.schedule.dispatch import Dispatcher
from ollim_bot.schedule.due_jobs import DueJobs
from ollim_bot.schedule.extra_times import HeadsUps, Nags
from ollim_bot.schedule.job_index import JobIndex
from ollim_bot.schedule.ledger_records import ArmedJobs, Heartbeat, ScheduleRecords
from ollim_bot.schedule.owner_zone import OwnerZone
from ollim_bot.schedule.requested_runs import RunRequests
from ollim_bot.schedule.scheduler import Scheduler
from ollim_bot.schedule.watcher import HandEdits, Watcher
from ollim_bot.store.heartbeat import HeartbeatFile
from ollim_bot.store.job_files import JobFileChanges, open_repositories
from ollim_bot.store.run_requests import RequestFolder
from ollim_bot.store.store import DatabaseStore

MANY = 10_000
ROUNDS = 9
STARTS = 3
IDLE_SECONDS = 30.0
BARE_IDLE_SECONDS = 10.0
LIMIT = 180.0


class _UnusedPart:
    """A part that must not be used: nothing is due, and nothing is wrong."""

    async def tell(self, sentence: str, *, key: str | None = None) -> None:
        raise AssertionError(key, sentence)

    async def forget(self, key: str) -> None: ...


def measure(folder: Path) -> list[Result]:
    few, _ = prepared(folder / "few")
    many, _ = prepared(folder / "many")
    # No job is due during the measurement.
    soon = datetime.now(UTC) + timedelta(days=3)
    write_reminders(many.reminders, MANY // 2, soon.year + 1)
    write_routines(many.routines, MANY // 2, soon.isoweekday() % 7)
    return asyncio.run(_measured(few, many, folder / "bare"))


async def _measured(few: DataPaths, many: DataPaths, bare: Path) -> list[Result]:
    async with asyncio.timeout(LIMIT):
        async with running(few) as (stores, _):
            new = [await _until_armed(few, stores, number) for number in range(ROUNDS)]
        starts, readings = [], []
        for _ in range(STARTS):
            async with running(many) as (stores, start):
                starts.append(start)
            readings.append(await asyncio.to_thread(seconds, lambda: _read_bytes(many)))
        async with running(many) as (stores, _):
            idle = await _idle()
            more = [await _until_armed(many, stores, number) for number in range(ROUNDS)]
            edits = [await _until_changed(many, stores, number) for number in range(ROUNDS)]
    heard, listening = await asyncio.to_thread(_bare, bare)
    alone, of = "watchfiles, as it comes", Bar.MANY_JOBS
    start, reading = median(starts), median(readings)
    return [
        Result("new job file, until armed", median(new), alone, heard, Bar.NEW_JOB, 1.0),
        Result(f"{MANY} jobs, start until armed", start, "reading their bytes", reading, of, 2.0),
        Result(f"{MANY} jobs, idle", idle, alone, listening, of, 0.005, unit=Unit.SHARE),
        Result(f"{MANY} jobs, edit of one until armed", median(edits), alone, heard, of, 1.0),
        Result(f"{MANY} jobs, one more until armed", median(more), alone, heard),
    ]


def _bare(folder: Path) -> tuple[float, float]:
    folder.mkdir()
    heard = bare_watch.heard_after(
        folder, lambda number: (folder / f"{number}.md").write_text("Call."), ROUNDS
    )
    return heard, bare_watch.idle_share(folder, BARE_IDLE_SECONDS)


def _read_bytes(paths: DataPaths) -> None:
    for folder in (paths.routines, paths.reminders):
        for path in folder.iterdir():
            path.read_bytes()


@asynccontextmanager
async def running(paths: DataPaths) -> AsyncIterator[tuple[Stores, float]]:
    """The stores, and the seconds until all jobs were armed, starting with an empty database."""
    clock, unused = SystemClock(UTC), cast("Any", _UnusedPart())
    journal = RecordingJournal()
    database = new_database(paths.root / f"start-{time.time_ns()}")
    stores = Stores(DatabaseStore(database, clock), open_repositories(paths, journal))
    book = JobIndex(paths, clock, unused, HandEdits(journal, paths.root, clock))
    dispatch = Dispatcher(
        stores.state, unused, unused, unused, unused, unused, clock, unused, JobRuns()
    )
    watcher = Watcher(paths, clock, unused.tell)
    changes = JobFileChanges(stores.state, stores.repositories)
    requests = RunRequests(RequestFolder(paths), stores.repositories, dispatch, clock)
    store = stores.state
    scheduler = Scheduler(
        book,
        watcher,
        changes,
        (
            Nags(store, book),
            HeadsUps(store, book, unused, clock),
            DueJobs(store, book, dispatch, unused, changes, clock),
        ),
        [requests.run],
        ScheduleRecords(
            ArmedJobs(store, clock),
            Heartbeat(store, HeartbeatFile(paths)),
            OwnerZone(store, clock, UTC),
        ),
        AnswerPlans(store, book, clock),
        clock,
    )
    began = time.perf_counter()
    running = asyncio.create_task(scheduler.run())
    try:
        while scheduler.heartbeat_age is None:
            if running.done():
                running.result()
            await asyncio.sleep(0.001)
        yield stores, time.perf_counter() - began
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await scheduler.close()
        database.close()


async def _until_armed(paths: DataPaths, stores: Stores, number: int) -> float:
    name, at = f"new{time.time_ns()}", SystemClock(UTC).now() + timedelta(days=2)
    head = f'---\nid: {name}\nrun-at: "{at:%Y-%m-%dT%H:%M}"\n---\n'
    began = time.perf_counter()
    (paths.reminders / f"{name}.md").write_text(f"{head}Call {number}.\n")
    await _until(stores, ARMED, name)
    return time.perf_counter() - began


async def _until_changed(paths: DataPaths, stores: Stores, number: int) -> float:
    path = paths.routines / f"plan-{number}.md"
    text = path.read_text()
    began = time.perf_counter()
    path.write_text(f"{text}And call them.\n")
    await _until(stores, CHANGED, f"p{number}")
    return time.perf_counter() - began


async def _until(stores: Stores, state: str, name: str) -> None:
    """Wait for the ledger row of the job, which is written in the step that arms it."""
    while True:
        rows = (await asyncio.to_thread(stores.ledger.tail, 1)).entries
        if rows and rows[-1].state == state and rows[-1].facts["job"] == name:
            return
        await asyncio.sleep(0.002)


async def _idle() -> float:
    """CPU seconds per second, including all checks of the files in half a minute."""
    await asyncio.sleep(2.0)
    began = time.process_time()
    await asyncio.sleep(IDLE_SECONDS)
    return (time.process_time() - began) / IDLE_SECONDS
