"""A ledger on a full disk: runs wait for room, in order, and delay no other run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from devtools.doubles.engine import Fails, Waits
from tests.kernel.conversation.background.scene import (
    WatchedEngine,
    background_scene,
    reminder,
    report,
    routine,
)
from tests.kernel.conversation.failing_stores import LedgerRefusingStore

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.conversation.background_attempt import Try
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.events import FailureKind
from ollim_bot.kernel.values.occurrences import LedgerRow, OccurrenceState

pytestmark = pytest.mark.usefixtures("inline_executor")

FULL = WriteFailed(Path("state/ollim.db"), "the disk is full.")


class FullLedger:
    """Refuses rows with these states: those of `job`, or those of all jobs if none is given."""

    def __init__(self, *states: str, job: str = "") -> None:
        self.refused = {*states}
        self.tries = 0
        self._job = job

    def __call__(self, store: Store) -> Store:
        return LedgerRefusingStore(store, self._has_no_room, FULL)

    def _has_no_room(self, row: LedgerRow) -> bool:
        is_meant = row.occurrence is None or self._job in row.occurrence.job_id
        is_refused = row.state in self.refused and is_meant
        self.tries += is_refused
        return is_refused


async def test_what_the_ledger_cannot_take_is_run_when_there_is_room() -> None:
    engine, ledger = WatchedEngine(), FullLedger("running")
    async with background_scene(engine, seen=ledger) as scene:
        running = scene.start(routine())
        await scene.until(lambda: ledger.tries)
        await scene.settled()
        assert (engine.opened, scene.states) == ([], [])
        ledger.refused.clear()
        await scene.clock.advance(5)
        assert await running is OccurrenceState.DONE
        assert scene.states == ["running", "done"]
        assert await scene.told() == ["state/ollim.db: the disk is full."]


async def test_what_had_to_wait_for_room_is_late() -> None:
    engine, ledger = WatchedEngine(), FullLedger("running")
    async with background_scene(engine, seen=ledger) as scene:
        running = scene.start(routine())
        await scene.until(lambda: ledger.tries)
        await scene.clock.advance(120)
        ledger.refused.clear()
        await scene.clock.advance(5)
        await running
        assert "[late: was scheduled for 10:15 AM, running now]" in engine.prompts[0]
        assert scene.end.facts["lateness"] == 125


@pytest.mark.parametrize("state", ["attempt_failed", "done", "failed", "skipped"])
async def test_the_last_row_is_on_disk_before_anything_may_follow_it(state: str) -> None:
    engine, ledger = WatchedEngine(), FullLedger(state)
    if state in ("attempt_failed", "failed"):
        engine.then(Fails(FailureKind.OVERLOADED))
    job = routine(allowed_tools=("Bash(*)",) if state == "skipped" else ())
    async with background_scene(engine, seen=ledger) as scene:
        this = Try(may_fail=state == "attempt_failed")
        doing = scene.skip(job) if state == "skipped" else scene.run(job, this)
        running = asyncio.create_task(doing)
        scene.tasks.append(running)
        await scene.until(lambda: ledger.tries)
        await scene.clock.advance(60)
        assert ledger.tries > 5
        assert not running.done()
        ledger.refused.clear()
        await scene.clock.advance(5)
        assert (await running).value == state
        assert scene.states[-1] == state
        assert scene.clock.sleeping == 0


async def test_an_end_that_waits_for_room_holds_up_nobody() -> None:
    ledger = FullLedger("done", job="first")
    async with background_scene(WatchedEngine(), seen=ledger) as scene:
        scene.configure(bg_concurrency=1)
        first, second = scene.start(routine("first")), scene.start(routine("second"))
        assert await second is OccurrenceState.DONE
        assert ledger.tries
        assert not first.done()


@pytest.mark.parametrize(
    ("refused", "has_room", "states"),
    [
        ("running", False, []),
        ("done", False, ["running"]),
        ("done", True, ["running", "done"]),
        ("cut_off", False, ["running"]),
    ],
)
async def test_who_stops_the_bot_does_not_wait_for_room(
    refused: str, has_room: bool, states: list[str]
) -> None:
    engine, ledger = WatchedEngine(), FullLedger(refused)
    if refused == "cut_off":
        engine.then(report("Half."), Waits())
    async with background_scene(engine, seen=ledger) as scene:
        running = scene.start(reminder())
        await scene.until(lambda: scene.pending if refused == "cut_off" else ledger.tries)
        if has_room:
            ledger.refused.clear()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert scene.states == states
        assert bool(engine.opened) is bool(states)
        assert engine.open_now == []
        assert scene.clock.sleeping == 0
