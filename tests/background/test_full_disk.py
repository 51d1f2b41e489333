"""A ledger that takes nothing more: runs wait for room, in order, and hold up nobody."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.background.scene import WatchedEngine, reminder, report, routine, scene
from tests.conversation.failing_stores import LedgerRefusingStore
from tests.conversation.scene import InlineExecutor

from ollim_bot.conversation.background_attempt import Try
from ollim_bot.domain.events import FailureKind
from ollim_bot.domain.occurrences import LedgerRow, OccurrenceState
from ollim_bot.errors import WriteFailed
from ollim_bot.store.store import Store
from ollim_bot.testing.engine import Fails, Waits

pytestmark = pytest.mark.usefixtures("at_once")

FULL = WriteFailed(Path("state/ollim.db"), "the disk is full.")


@pytest.fixture
async def at_once() -> None:
    """Nothing happens in other threads, which a clock that is moved does not wait for."""
    asyncio.get_running_loop().set_default_executor(InlineExecutor())


class SmallLedger:
    """Has no room for rows with these states, of the job that is named if one is."""

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
    engine, ledger = WatchedEngine(), SmallLedger("running")
    async with scene(engine, seen=ledger) as stage:
        running = stage.start(routine())
        await stage.until(lambda: ledger.tries)
        await stage.settled()
        assert (engine.opened, stage.states) == ([], [])
        ledger.refused.clear()
        await stage.clock.advance(5)
        assert await running is OccurrenceState.DONE
        assert stage.states == ["running", "done"]
        assert await stage.told() == ["state/ollim.db: the disk is full."]


async def test_what_had_to_wait_for_room_is_late() -> None:
    engine, ledger = WatchedEngine(), SmallLedger("running")
    async with scene(engine, seen=ledger) as stage:
        running = stage.start(routine())
        await stage.until(lambda: ledger.tries)
        await stage.clock.advance(120)
        ledger.refused.clear()
        await stage.clock.advance(5)
        await running
        assert "[late: was scheduled for 10:15 AM, running now]" in engine.prompts[0]
        assert stage.end.facts["lateness"] == 125


@pytest.mark.parametrize("state", ["attempt_failed", "done", "failed", "skipped"])
async def test_the_last_row_is_on_disk_before_anything_may_follow_it(state: str) -> None:
    engine, ledger = WatchedEngine(), SmallLedger(state)
    if state in ("attempt_failed", "failed"):
        engine.then(Fails(FailureKind.OVERLOADED))
    job = routine(allowed_tools=("Bash(*)",) if state == "skipped" else ())
    async with scene(engine, seen=ledger) as stage:
        this = Try(may_fail=state == "attempt_failed")
        doing = stage.skip(job) if state == "skipped" else stage.run(job, this)
        running = asyncio.create_task(doing)
        stage.tasks.append(running)
        await stage.until(lambda: ledger.tries)
        await stage.clock.advance(60)
        assert ledger.tries > 5
        assert not running.done()
        ledger.refused.clear()
        await stage.clock.advance(5)
        assert (await running).value == state
        assert stage.states[-1] == state
        assert stage.clock.sleeping == 0


async def test_an_end_that_waits_for_room_holds_up_nobody() -> None:
    ledger = SmallLedger("done", job="first")
    async with scene(WatchedEngine(), seen=ledger) as stage:
        stage.configure(bg_concurrency=1)
        first, second = stage.start(routine("first")), stage.start(routine("second"))
        assert await second is OccurrenceState.DONE
        assert ledger.tries
        assert not first.done()


async def test_who_stops_the_bot_does_not_wait_for_room() -> None:
    ledger = SmallLedger("done")
    async with scene(WatchedEngine(), seen=ledger) as stage:
        running = stage.start(routine())
        await stage.until(lambda: ledger.tries)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert stage.states == ["running"]
        assert stage.clock.sleeping == 0


async def test_but_an_end_for_which_there_is_room_by_then_is_written() -> None:
    ledger = SmallLedger("done")
    async with scene(WatchedEngine(), seen=ledger) as stage:
        running = stage.start(routine())
        await stage.until(lambda: ledger.tries)
        ledger.refused.clear()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert stage.states == ["running", "done"]


async def test_what_is_stopped_before_it_could_begin_leaves_no_trace() -> None:
    engine, ledger = WatchedEngine(), SmallLedger("running")
    async with scene(engine, seen=ledger) as stage:
        running = stage.start(routine())
        await stage.until(lambda: ledger.tries)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (engine.opened, stage.states) == ([], [])


async def test_a_run_that_is_cut_off_on_a_full_disk_does_not_keep_the_bot_from_stopping() -> None:
    engine, ledger = WatchedEngine().then(report("Half."), Waits()), SmallLedger("cut_off")
    async with scene(engine, seen=ledger) as stage:
        running = stage.start(reminder())
        await stage.until(lambda: stage.pending)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert stage.states == ["running"]
        assert engine.open_now == []
