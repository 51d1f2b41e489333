"""Ten thousand jobs in the book: the start, an edit of one of them, and doing nothing."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import UTC
from pathlib import Path
from statistics import median

from bench.measure import Result
from bench.places import prepared, write_reminders
from ollim_bot.clock import SystemClock
from ollim_bot.data_paths import DataPaths
from ollim_bot.scheduling.hand_edits import HandEdits
from ollim_bot.scheduling.job_book import JobBook
from ollim_bot.scheduling.watcher import SCAN_SECONDS, Watcher
from ollim_bot.testing.journal import RememberingJournal

MANY = 10_000
ROUNDS = 9
IDLE_SECONDS = 3.0


class _Nobody:
    async def tell(self, sentence: str) -> None:
        raise AssertionError(sentence)

    async def forget(self, key: str) -> None: ...


def measure(folder: Path) -> list[Result]:
    paths, _ = prepared(folder)
    write_reminders(paths.reminders, MANY)
    return asyncio.run(_measured(paths))


async def _measured(paths: DataPaths) -> list[Result]:
    clock = SystemClock(UTC)
    book = JobBook(paths, clock, _Nobody(), HandEdits(RememberingJournal(), paths.root, clock))
    began = time.perf_counter()
    await book.refresh()
    start = time.perf_counter() - began
    watcher = Watcher(paths, clock, _Nobody().tell)
    running = asyncio.create_task(watcher.run())
    try:
        await watcher.wait()
        edits = [await _edited(paths, book, watcher, number) for number in range(ROUNDS)]
        idle = await _idle(book)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    return [
        Result(f"{MANY} jobs known after a start", start, "1.5 s", 1.5, bar=1.0),
        Result("edit of one of them, until known", median(edits), "500 ms", 0.5, bar=1.0),
        Result("work in a second without edits", idle, "1 % of it", 0.01, bar=1.0),
    ]


async def _edited(paths: DataPaths, book: JobBook, watcher: Watcher, number: int) -> float:
    text = f"---\nid: r7\nrun-at: 2027-01-08T09:00\n---\nCall {number}.\n"
    began = time.perf_counter()
    (paths.reminders / "call-7.md").write_text(text)
    await watcher.wait()
    while not (await book.refresh()).changed:
        await watcher.wait()
    return time.perf_counter() - began


async def _idle(book: JobBook) -> float:
    """CPU seconds in each second: the listening, and its share of a look that finds nothing."""
    await asyncio.sleep(0.2)
    await book.refresh()
    began = time.process_time()
    await asyncio.sleep(IDLE_SECONDS)
    listening = (time.process_time() - began) / IDLE_SECONDS
    began = time.process_time()
    await book.refresh()
    return listening + (time.process_time() - began) / SCAN_SECONDS
