"""The views of the page after a long life: first, kept, after an event, idle, and their bytes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.conversation.scene import HOME, conversation_deps
from tests.stores import Stores

from bench import page_bytes, schedule
from bench.fixtures import prepared, write_daily, write_reminders, write_routines
from bench.ledger import run_rows
from bench.long_life import OPEN, live_long, open_item, talked
from bench.measure import Result, Unit
from ollim_bot.app.build import ConversationParts
from ollim_bot.clock import SystemClock
from ollim_bot.domain.occurrences import Answer
from ollim_bot.paths import DataPaths
from ollim_bot.surfaces.web.frames import Json
from ollim_bot.surfaces.web.panels import PAGE, Panels
from ollim_bot.view_ports import Views

JOBS = 10_000
ROUNDS = 9
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


def measure(folder: Path) -> list[Result]:
    return [*asyncio.run(_measured(folder)), *page_bytes.rows()]


async def _measured(folder: Path) -> list[Result]:
    rows: list[Result] = []
    async with asyncio.timeout(LIMIT):
        async with _page(folder / "new", 0) as page:
            new = {name: [await _look(page, name) for _ in range(ROUNDS)] for name in KEPT}
        async with _page(folder / "old", JOBS) as page:
            await asyncio.to_thread(live_long, page.stores.state, SystemClock(UTC).now())
            closed = await _share()
            first = {name: await _look(page, name) for name in KEPT}
            opened = await _share()
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
        # No job is due during the measurement, and a seventh of the routines comes today.
        soon = datetime.now(UTC) + timedelta(days=3)
        write_reminders(paths.reminders, jobs // 2, soon.year + 1)
        write_routines(paths.routines, jobs // 2, soon.isoweekday() % 7)
    stale = asyncio.Event()

    def send(frame: Json) -> None:
        if frame["panel"] == "today":
            stale.set()

    async with schedule.running(paths) as (stores, _):
        clock: Any = SystemClock(UTC)
        deps = conversation_deps(talked(HOME), stores, clock, [])
        views = ConversationParts(deps).conversation.views
        panels = Panels(views, clock, send)
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


async def _share() -> float:
    await asyncio.sleep(2.0)
    began = time.process_time()
    await asyncio.sleep(IDLE_SECONDS)
    return (time.process_time() - began) / IDLE_SECONDS
