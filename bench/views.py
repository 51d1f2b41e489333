"""The views of the page after a long life, and its week."""

from __future__ import annotations

import asyncio
import gc
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence, Set
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from devtools.doubles.journal import RecordingJournal
from tests.kernel.conversation.scene import HOME, conversation_deps
from tests.stores import Stores, memory_stores

from bench.fixtures import (
    OPEN,
    live_long,
    new_database,
    open_item,
    own_share,
    prepared,
    run_rows,
    talked,
    write_daily,
    write_jobs,
)
from bench.measure import Result, Unit, seconds
from bench.schedule import running
from ollim_bot.app.build import ConversationParts
from ollim_bot.app.start import SWITCH_INTERVAL
from ollim_bot.app.surfaces import PAGES
from ollim_bot.features.week.rehearsal_findings import findings
from ollim_bot.features.week.week_view import KeptWeek, WeekPanel, WeekPlans, week_html
from ollim_bot.kernel.base.clock import SystemClock
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.job_files import open_repositories
from ollim_bot.kernel.store.store import DatabaseStore
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.jobs import JobSpec, Routine
from ollim_bot.kernel.values.occurrences import Answer
from ollim_bot.kernel.values.schedule import ScheduledJob
from ollim_bot.kernel.values.simulation import DAYS, rehearse
from ollim_bot.kernel.values.views import Views
from ollim_bot.surfaces.web.frames import Json
from ollim_bot.surfaces.web.panels import PAGE, Panels

JOBS = 10_000
ROUNDS, DRAFT_ROUNDS = 9, 5
SIZES = (1_000, JOBS)
# The jobs of a draft, and how often a day the busier ones come.
MANY, OFTEN = 1000, 12
LONGEST_PAUSE = 0.05
MOST_KEPT, MOST_AFTER_EVENT = 0.1, 0.2
IDLE_SECONDS = 20.0
# No growth; the rest allows for the noise between two half minutes.
MOST_MORE_IDLE = 0.001
LIMIT = 300.0
KEPT = ("today", "jobs", "runs", "money", "changes", "health", "settings", "sessions")
# What changes with each run.
OF_RUNS = ("today", "runs")
# The markup of a hundred lines.
LISTS, MOST_BYTES = ("jobs", "runs"), 120_000
# Longer than a panel waits between two frames, and than it keeps what was read.
_PAUSE = 0.7


class Taken(NamedTuple):
    """Seconds on the clock, and of the processor."""

    wall: float
    cpu: float


@dataclass
class Page:
    """The panels of a running schedule; `stale` is set by the frame for today."""

    paths: DataPaths
    stores: Stores
    views: Views
    panels: Panels
    stale: asyncio.Event


def measure_views(folder: Path) -> list[Result]:
    """The views of the page after a long life: first, kept, after an event, idle, their bytes."""
    return [*asyncio.run(_views_rows(folder)), *page_bytes()]


async def _views_rows(folder: Path) -> list[Result]:
    rows: list[Result] = []
    async with asyncio.timeout(LIMIT):
        async with _page(folder / "new", 0) as page:
            new = {name: [await _look(page, name) for _ in range(ROUNDS)] for name in KEPT}
        async with _page(folder / "old", JOBS) as page:
            await asyncio.to_thread(live_long, page.stores.state, SystemClock(UTC).now())
            closed = await own_share(IDLE_SECONDS)
            first = {name: await _look(page, name) for name in KEPT}
            opened = await own_share(IDLE_SECONDS)
            for name in KEPT:
                kept = [await _look(page, name) for _ in range(ROUNDS)]
                rows += _rows(f"{name}, kept", _medians(kept), _medians(new[name]), MOST_KEPT)
                rows += _rows(f"{name}, first", first[name], new[name][0], None)
            rows += [await _bytes(page, name) for name in LISTS]
            base = _medians(new["today"])
            for about, happen in (("an answer", _answer), ("a job file", _edit)):
                times = [await _after(page, happen, number) for number in range(ROUNDS)]
                rows += _rows(f"today after {about}", _medians(times), base, MOST_AFTER_EVENT)
        async with _page(folder / "daily", JOBS, is_daily=True) as page:
            for name in OF_RUNS:
                times = [await _after_run(page, name, number) for number in range(ROUNDS)]
                about = f"{name} after a run, each job once a day"
                rows += _rows(about, _medians(times), _medians(new[name]), MOST_KEPT)
    return [*rows, _idle(closed, opened)]


def _rows(name: str, taken: Taken, base: Taken, most: float | None) -> list[Result]:
    named, new = f"{name}, {JOBS} jobs", "a new installation"
    return [
        Result(named, taken.wall, new, base.wall, most=most),
        Result(f"{named}, CPU time", taken.cpu, new, base.cpu, most=most),
    ]


def _medians(times: list[Taken]) -> Taken:
    return Taken(median(each.wall for each in times), median(each.cpu for each in times))


@asynccontextmanager
async def _page(root: Path, jobs: int, *, is_daily: bool = False) -> AsyncIterator[Page]:
    paths, _ = prepared(root)
    if is_daily:
        write_daily(paths.routines, jobs, datetime.now(UTC))
    else:
        write_jobs(root, jobs)
    stale = asyncio.Event()

    def send(frame: Json) -> None:
        if frame["panel"] == "today":
            stale.set()

    async with running(paths) as (stores, _):
        clock: Any = SystemClock(UTC)
        deps = conversation_deps(talked(HOME), stores, clock, [])
        views = ConversationParts(deps).conversation.views
        panels = Panels(PAGES, views, clock, send)
        watching = asyncio.create_task(panels.watch())
        try:
            yield Page(paths, stores, views, panels, stale)
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching


async def _look(page: Page, name: str) -> Taken:
    """From the question of a tab to the markup; nothing of it is kept by the panel."""
    await asyncio.sleep(_PAUSE)
    return await _taken(page.panels.named(name).fragment({}, PAGE))


async def _bytes(page: Page, name: str) -> Result:
    panel, unit = page.panels.named(name), Unit.BYTES
    size, one = [len(str((await panel.fragment({}, lines))["html"])) for lines in (PAGE, 1)]
    row = f"bytes of {PAGE} lines of {name}"
    return Result(row, size, "one line", one, most=MOST_BYTES, unit=unit)


async def _taken(work: Awaitable[Any]) -> Taken:
    wall, cpu = time.perf_counter(), time.process_time()
    await work
    return Taken(time.perf_counter() - wall, time.process_time() - cpu)


async def _after(page: Page, happen: Callable[[Page, int], Awaitable[None]], number: int) -> Taken:
    """From the event to the markup of today that a tab asks for once it is told."""

    async def seen() -> None:
        await happen(page, number)
        await page.stale.wait()
        await page.panels.named("today").fragment({}, PAGE)

    await asyncio.sleep(_PAUSE)
    page.stale.clear()
    return await _taken(seen())


async def _after_run(page: Page, name: str, number: int) -> Taken:
    now = SystemClock(UTC).now()
    rows = run_rows(f"p{number}", now.replace(microsecond=0))
    await page.stores.state.transact(lambda tx: tx.ledger.append(*rows))
    return await _look(page, name)


async def _answer(page: Page, number: int) -> None:
    now = SystemClock(UTC).now()
    item = open_item(number % OPEN, now).answered(Answer.DONE, now, "web")
    await page.stores.state.transact(lambda tx: tx.due_items.put(item))


async def _edit(page: Page, number: int) -> None:
    path = page.paths.routines / f"plan-{number}.md"
    path.write_text(f"{path.read_text()}And call them.\n")


def _idle(before: float, after: float) -> Result:
    """Before and after the views were asked for; nothing happens meanwhile."""
    return Result(
        f"idle with a view open, {JOBS} jobs",
        after,
        "without",
        max(before, 1e-6),
        most_more=MOST_MORE_IDLE,
        unit=Unit.SHARE,
    )


MOST_OF_CHAT, MOST_OF_VIEW, MOST_IN_ALL = 203_776, 25_000, 350_000

_STATIC = Path(str(files("ollim_bot.surfaces.web"))) / "static"
_LINKED = re.compile(r'(?:href|src)="/static/([\w.]+)"')
_IMPORTED = re.compile(r'^(?:import|export)\b[^;]*?from "\./([\w.]+)"|^import "\./([\w.]+)"', re.M)
# What every view loads beside its own style, and what Today loads more.
_OF_VIEWS, _OF_TODAY = ("panel.js", "panel.css"), ("today.js",)


def page_bytes() -> list[Result]:
    chat = _with_imports({"index.html", *_LINKED.findall(_text("index.html"))})
    all_ = {each.name for each in _STATIC.iterdir()}
    unit, base, whole = Unit.BYTES, _size(chat), _size(all_)
    found = [Result("bytes of Chat", base, "all of the page", whole, most=MOST_OF_CHAT, unit=unit)]
    for view in PAGES:
        today = _OF_TODAY if view.name == "today" else ()
        more = _size(_with_imports({*_OF_VIEWS, *today, *filter(None, [view.style])}) - chat)
        row = f"bytes that the view {view.name} adds"
        found.append(Result(row, more, "bytes of Chat", base, most=MOST_OF_VIEW, unit=unit))
    row = "bytes of the page in all"
    found.append(Result(row, whole, "bytes of Chat", base, most=MOST_IN_ALL, unit=unit))
    return found


def _with_imports(names: Iterable[str]) -> set[str]:
    """The files, and those that they load at once."""
    found: set[str] = set()
    waiting = [*names]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            if name.endswith(".js"):
                waiting += [a or b for a, b in _IMPORTED.findall(_text(name))]
    return found


def _size(names: Set[str]) -> int:
    return sum((_STATIC / name).stat().st_size for name in names)


def _text(name: str) -> str:
    return (_STATIC / name).read_text()


_TICK = 0.001

Draft = tuple[ScheduledJob | None, ScheduledJob | None]


def measure_week(folder: Path) -> list[Result]:  # noqa: ARG001
    """A thousand jobs in a rehearsed week: what a draft of one of them changes, beside the loop."""
    return asyncio.run(_week_rows())


async def _week_rows() -> list[Result]:
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
    whole = median(seconds(lambda: _rehearse_twice(kept)) for _ in range(DRAFT_ROUNDS))
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
    for _ in range(DRAFT_ROUNDS):
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


def measure_week_page(folder: Path) -> list[Result]:
    """The week on the page with a thousand and ten thousand jobs: rehearsed anew, and kept."""
    _, empty = asyncio.run(_week_page_rows(folder / "empty", 0))
    rows = []
    for size in SIZES:
        anew, kept = asyncio.run(_week_page_rows(folder / str(size), size))
        base = "a week without jobs"
        rows += [
            Result(f"week, {size} jobs, kept", kept, base, empty, most=MOST_KEPT),
            Result(f"week, {size} jobs, rehearsed", anew, base, empty),
        ]
    return rows


async def _week_page_rows(root: Path, size: int) -> tuple[float, float]:
    """The seconds until the markup of a week, rehearsed and kept; each job is due once a day."""
    database = new_database(root)
    paths, clock = DataPaths(root), SystemClock(UTC)
    for number in range(size):
        line = f"{number * 7 % 60} {number * 5 % 24} * * *"
        text = f'---\nid: p{number}\ncron: "{line}"\nbackground: true\n---\nPlan number {number}.\n'
        (paths.routines / f"plan-{number}.md").write_text(text)
    store = DatabaseStore(database, clock)
    repositories = open_repositories(paths, RecordingJournal())
    plans = WeekPlans(store, repositories, frozenset, clock)
    panel = WeekPanel(store, plans.week, tuple, clock)
    await asyncio.to_thread(repositories.routines.all)
    try:
        anew = await _seconds_to_markup(panel)
        kept = [await _seconds_to_markup(panel) for _ in range(ROUNDS)]
    finally:
        await store.close()
        database.close()
    return anew, median(kept)


async def _seconds_to_markup(panel: WeekPanel) -> float:
    began = time.perf_counter()
    week = await panel.look({})
    await asyncio.to_thread(week_html, week, PAGE)
    return time.perf_counter() - began
