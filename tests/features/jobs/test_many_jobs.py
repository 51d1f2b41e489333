"""A look at the day and at the runs costs hardly more with a thousand jobs."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC
from pathlib import Path
from types import FrameType
from typing import Any

from devtools.doubles.clock import ManualClock
from devtools.doubles.journal import RecordingJournal
from devtools.doubles.memory import RecordingStore
from tests.kernel.conversation.scene import NOW, InlineExecutor, Scene, scene, scripted
from tests.stores import Stores

from ollim_bot.app.surfaces import PAGES
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.job_files import open_repositories
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.values.definitions import Definition, roster_row
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.surfaces.web.panels import PAGE, Panels

# Both more than a page shows.
FEW, MANY = 100, 500
# The list of the jobs is gone through, but nothing is reckoned or drawn for each.
MOST_CALLS_PER_JOB = 12


class Calls:
    """Counts the calls of our own functions while it is entered."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Calls:
        self._before = sys.getprofile()
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and "ollim_bot" in frame.f_code.co_filename:
            self.count += 1


def text_of(number: int) -> str:
    minute = number * 1439 // MANY
    return (
        f'---\nid: j{number}\ncron: "{minute % 60} {minute // 60} * * *"\nplain: true\n'
        "description: Blumen gießen\n---\nGieß die Blumen.\n"
    )


async def looked_at(at: Scene) -> dict[str, int]:
    """The calls for a look at each view, after a run since the one before it."""
    # What is meant for a thread is run where its calls are counted.
    asyncio.get_running_loop().set_default_executor(InlineExecutor())
    panels = Panels(PAGES, at.chat.views, at.clock, lambda _: None)
    found: dict[str, int] = {}
    for number in range(3):
        for name in ("today", "runs"):
            await at.clock.advance(60.000007)
            fire(at, f"j{number}")
            with Calls() as calls:
                await panels.named(name).fragment({}, PAGE)
            found[name] = calls.count
    return found


def fire(at: Scene, job: str) -> None:
    now = at.clock.now()
    one = Occurrence.scheduled(JobKind.ROUTINE, job, now.replace(second=0, microsecond=0))
    rows = [LedgerRow(now, state, one, {"job": job}) for state in ("due", "running", "done")]
    at.stores.state.run(lambda tx: tx.ledger.append(*rows))


async def calls_with(folder: Path, jobs: int) -> dict[str, int]:
    paths = DataPaths(folder / str(jobs))
    prepare_data_directory(paths)
    for number in range(jobs):
        (paths.routines / f"{number}.md").write_text(text_of(number), encoding="utf-8")
    repositories = open_repositories(paths, RecordingJournal())
    clock = ManualClock(NOW)
    stores = Stores(RecordingStore(clock.now), repositories)
    definitions = [Definition.of(each.item, UTC) for each in repositories.routines.all()]
    stores.state.run(lambda tx: tx.ledger.append(roster_row(definitions, NOW, NOW)))
    async with scene(scripted(), stores=stores, clock=clock, runs=False, heartbeat=clock.now) as at:
        return await looked_at(at)


async def test_a_look_after_a_run_reckons_nothing_for_each_job(tmp_path: Path) -> None:
    few, many = await calls_with(tmp_path, FEW), await calls_with(tmp_path, MANY)
    assert [*few] == [*many] == ["today", "runs"]
    for name, calls in many.items():
        assert (calls - few[name]) / (MANY - FEW) < MOST_CALLS_PER_JOB, name
