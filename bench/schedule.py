"""Ten thousand jobs: reading them, and a schedule that starts, hears of them and does nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import tarfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import count
from pathlib import Path
from queue import Queue
from statistics import median
from typing import Any, NamedTuple, cast

from devtools.doubles.journal import RecordingJournal
from tests.stores import Stores
from watchfiles import watch

from bench.fixtures import (
    BOT,
    ledger_row,
    new_database,
    own_share,
    prepared,
    python_process,
    until,
    write_jobs,
    write_reminders,
)
from bench.measure import Bar, Result, Unit, compare, seconds
from ollim_bot.kernel.base.clock import SystemClock
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.change_journal import ChangeJournal
from ollim_bot.kernel.changes.job_files import JobFileChanges, open_repositories
from ollim_bot.kernel.conversation.foreground import JobRuns
from ollim_bot.kernel.schedule.dispatch import Dispatcher
from ollim_bot.kernel.schedule.due_jobs import DueJobs
from ollim_bot.kernel.schedule.extra_times import HeadsUps, Nags
from ollim_bot.kernel.schedule.job_index import AnswerPlans, JobIndex
from ollim_bot.kernel.schedule.ledger_records import (
    ArmedJobs,
    Heartbeat,
    OwnerZone,
    ScheduleRecords,
)
from ollim_bot.kernel.schedule.requested_runs import RunRequests
from ollim_bot.kernel.schedule.scheduler import Scheduler
from ollim_bot.kernel.schedule.watcher import Watcher
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.store.run_requests import RequestFolder
from ollim_bot.kernel.store.store import DatabaseStore
from ollim_bot.kernel.values.run_history import ARMED, CHANGED, CHECKPOINT

MANY = 10_000
JOBS = (50, 1_000, MANY)
STARTS = 3
ROUNDS = 9
IDLE_SECONDS, BARE_IDLE_SECONDS = 30.0, 10.0
DUE_AFTER = timedelta(seconds=8)
LIMIT, WATCH_LIMIT = 180.0, 30.0
# What has to be there before any job can be read.
BARE = ("-c", "import ollim_bot.app.start")
ROOT = Path(__file__).parents[1]
# Their sources are taken from the history; where it lacks one, its rows are left out.
FORMER = {"version 0.6": "0d1ae473", "version 0.12": "0347e24a"}


def measure_jobs(folder: Path) -> list[Result]:
    """Ten thousand job files: the first look, the next, and one changed file."""
    paths, stores = prepared(folder)
    write_reminders(paths.reminders, MANY)
    numbers = count()

    def read_bytes() -> None:
        for path in paths.reminders.iterdir():
            path.read_bytes()

    def first_look() -> None:
        _, fresh = prepared(folder)
        assert len(fresh.reminders.all()) == MANY

    def next_look() -> None:
        assert len(stores.reminders.all()) == MANY

    def one_changed() -> None:
        name = paths.reminders / "call-7.md"
        text = f"---\nid: r7\nrun-at: 2027-01-08T09:00\n---\nCall {next(numbers)}.\n"
        name.write_text(text)
        assert len(stores.reminders.all()) == MANY

    first = compare(
        f"{MANY} job files, first look", first_look, "reading their bytes", read_bytes, rounds=3
    )
    time.sleep(0.2)
    stores.reminders.all()
    base = "first look"
    return [
        first,
        compare("nothing changed since", next_look, base, first_look, rounds=3, most_times=0.3),
        compare("one file changed since", one_changed, base, first_look, rounds=3, most_times=0.3),
    ]


class _UnusedPart:
    """A part that must not be used: nothing is due, and nothing is wrong."""

    async def tell(self, sentence: str, *, key: str | None = None) -> None:
        raise AssertionError(key, sentence)

    async def forget(self, key: str) -> None: ...


def measure_schedule(folder: Path) -> list[Result]:
    """Ten thousand jobs of a running schedule: the start, a new file, an edit, doing nothing."""
    few, _ = prepared(folder / "few")
    many, _ = prepared(folder / "many")
    write_jobs(many.root, MANY)
    return asyncio.run(_schedule_rows(few, many, folder / "bare"))


async def _schedule_rows(few: DataPaths, many: DataPaths, bare: Path) -> list[Result]:
    async with asyncio.timeout(LIMIT):
        async with running(few) as (stores, _):
            new = [await _until_armed(few, stores, number) for number in range(ROUNDS)]
        starts, readings = [], []
        for _ in range(STARTS):
            async with running(many) as (stores, start):
                starts.append(start)
            readings.append(await asyncio.to_thread(seconds, lambda: _read_bytes(many)))
        async with running(many) as (stores, _):
            # Half a minute has all checks of the files in it.
            idle = await own_share(IDLE_SECONDS)
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
    heard = heard_after(
        folder, lambda number: (folder / f"{number}.md").write_text("Call."), ROUNDS
    )
    return heard, idle_share(folder, BARE_IDLE_SECONDS)


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
    book = JobIndex(paths, clock, unused, ChangeJournal(journal, paths.root, clock))
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
    await _schedule_until(stores, ARMED, name)
    return time.perf_counter() - began


async def _until_changed(paths: DataPaths, stores: Stores, number: int) -> float:
    path = paths.routines / f"plan-{number}.md"
    text = path.read_text()
    began = time.perf_counter()
    path.write_text(f"{text}And call them.\n")
    await _schedule_until(stores, CHANGED, f"p{number}")
    return time.perf_counter() - began


async def _schedule_until(stores: Stores, state: str, name: str) -> None:
    """Wait for the ledger row of the job, which is written in the step that arms it."""
    while True:
        rows = (await asyncio.to_thread(stores.ledger.tail, 1)).entries
        if rows and rows[-1].state == state and rows[-1].facts["job"] == name:
            return
        await asyncio.sleep(0.002)


def heard_after(folder: Path, write: Callable[[int], object], rounds: int) -> float:
    """The median of the seconds from a write in the folder until it is reported."""
    times = []
    with _listening(folder) as heard:
        for number in range(rounds):
            began = time.perf_counter()
            write(number)
            heard.get(timeout=WATCH_LIMIT)
            times.append(time.perf_counter() - began)
            _until_quiet(heard)
    return median(times)


def idle_share(folder: Path, seconds: float) -> float:
    """CPU seconds of this process per second of watching while nothing happens."""
    with _listening(folder):
        time.sleep(0.5)
        began = time.process_time()
        time.sleep(seconds)
        return (time.process_time() - began) / seconds


@contextmanager
def _listening(folder: Path) -> Iterator[Queue[int]]:
    heard: Queue[int] = Queue()
    stop = threading.Event()

    def listen() -> None:
        signs = watch(folder, stop_event=stop, rust_timeout=250, yield_on_timeout=True)
        for number, burst in enumerate(signs):
            # The first event says that the watching has begun.
            if burst or number == 0:
                heard.put(len(burst))

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        heard.get(timeout=WATCH_LIMIT)
        yield heard
    finally:
        stop.set()
        thread.join(WATCH_LIMIT)


def _until_quiet(heard: Queue[int]) -> None:
    """One write can be reported twice."""
    time.sleep(0.2)
    while not heard.empty():
        heard.get()


def measure_starts(folder: Path) -> list[Result]:
    """The whole program from its start until its jobs are armed, with new and with known files."""
    rows = []
    for jobs in JOBS:
        rounds = [_starts(folder / f"{jobs}-{number}", jobs) for number in range(STARTS)]
        new, known, bare = (median(each) for each in zip(*rounds, strict=True))
        for files, taken in (("new", new), ("known", known)):
            row = f"program until armed, {jobs} {files} files"
            rows.append(Result(row, taken, "loading the program", bare))
    return rows


def _starts(home: Path, jobs: int) -> tuple[float, float, float]:
    """Seconds of the first start, of the next one, and of loading the program."""
    write_jobs(home / "data", jobs)
    new, known = _starts_until_armed(home), _starts_until_armed(home)
    began = time.monotonic()
    with python_process(home, BARE) as process:
        process.wait(LIMIT)
    return new, known, time.monotonic() - began


def _starts_until_armed(home: Path) -> float:
    """A start writes a checkpoint when all jobs are armed."""
    data = home / "data"
    before, began = ledger_row(data, CHECKPOINT), time.monotonic()
    with python_process(home, BOT) as process:
        until(lambda: ledger_row(data, CHECKPOINT) != before, process)
        return time.monotonic() - began


class Seen(NamedTuple):
    """Seconds from the start of the program, from a due moment, and from an edit."""

    armed: float
    late: float
    edited: float


def measure_new_files(folder: Path) -> list[Result]:
    """Ten thousand new job files, seen from outside: the start, a job due soon, and one edit."""
    sources = {"now": ROOT / "src"}
    for version, commit in FORMER.items():
        source = folder / version.replace(" ", "-")
        if _is_taken_out(commit, source):
            sources[version] = source / "src"
    rounds = [
        {name: _seen(folder / f"{name}-{number}", source) for name, source in sources.items()}
        for number in range(STARTS)
    ]
    return [row for version in sources if version != "now" for row in _rows(version, rounds)]


def _rows(version: str, rounds: list[dict[str, Seen]]) -> list[Result]:
    def row(what: str, of: Callable[[Seen], float]) -> Result:
        now = median(of(each["now"]) for each in rounds)
        then = median(of(each[version]) for each in rounds)
        return Result(f"{MANY} new files, {what}, to {version}", now, version, then, Bar.MANY_JOBS)

    return [
        row("program until armed", lambda seen: seen.armed),
        row(f"due after {DUE_AFTER.seconds} s, late by", lambda seen: seen.late),
        row("edit of one until armed", lambda seen: seen.edited),
    ]


def _is_taken_out(commit: str, folder: Path) -> bool:
    """Write the source of the commit below `folder`; False if the history lacks it."""
    command = ("git", "archive", "--format=tar", commit, "src")
    found = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if found.returncode:
        return False
    with tarfile.open(fileobj=BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return True


def _seen(home: Path, source: Path) -> Seen:
    """What a start with new files shows; the edit comes while they are being committed."""
    data = home / "data"
    write_jobs(data, MANY)
    due = (datetime.now(UTC) + DUE_AFTER).replace(microsecond=0)
    head = f"---\nid: soon\nrun-at: {due.isoformat()}\nplain: true\n---\n"
    (data / "reminders" / "soon.md").write_text(f"{head}Drink water.\n")
    began = time.monotonic()
    with python_process(home, BOT, {"PYTHONPATH": str(source)}) as process:
        until(lambda: _value(data, "roster") is not None, process)
        armed, edited = time.monotonic() - began, time.monotonic()
        with (data / "routines" / "plan-7.md").open("a") as file:
            file.write("And call them.\n")
        until(lambda: _value(data, "changed") is not None, process)
        edit = time.monotonic() - edited
        until(lambda: _value(data, "due") is not None, process)
    moment = datetime.fromisoformat(json.loads(_value(data, "due") or "")["ts"])
    return Seen(armed, (moment - due).total_seconds(), edit)


def _value(data: Path, state: str) -> str | None:
    """The newest row of this state in the ledger, which was a file of lines once."""
    lines = data / "state" / "ledger.jsonl"
    if lines.exists():
        found = [line for line in lines.read_text().splitlines() if f'"state": "{state}"' in line]
        return found[-1] if found else None
    row = ledger_row(data, state)
    return None if row is None else row[1]
