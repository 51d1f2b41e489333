"""The week on the page with a thousand and ten thousand jobs: rehearsed anew, and kept."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC
from pathlib import Path
from statistics import median

from devtools.doubles.journal import RecordingJournal

from bench.fixtures import new_database
from bench.measure import Result
from ollim_bot.clock import SystemClock
from ollim_bot.conversation.jobs.week import WeekPanel
from ollim_bot.conversation.jobs.week_plans import WeekPlans
from ollim_bot.paths import DataPaths
from ollim_bot.store.job_files import open_repositories
from ollim_bot.store.store import DatabaseStore
from ollim_bot.surfaces.web.panels import PAGE
from ollim_bot.surfaces.web.week_html import week_html

SIZES = (1_000, 10_000)
ROUNDS = 9
MOST_SECONDS = 0.1


def measure(folder: Path) -> list[Result]:
    _, empty = asyncio.run(_measured(folder / "empty", 0))
    rows = []
    for size in SIZES:
        anew, kept = asyncio.run(_measured(folder / str(size), size))
        base = "a week without jobs"
        rows += [
            Result(f"week, {size} jobs, kept", kept, base, empty, most=MOST_SECONDS),
            Result(f"week, {size} jobs, rehearsed", anew, base, empty),
        ]
    return rows


async def _measured(root: Path, size: int) -> tuple[float, float]:
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
