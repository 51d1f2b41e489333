"""When the bot stops: runs get a while to end, then they are cut off, and nothing new begins."""

from __future__ import annotations

import asyncio

import pytest
from tests.background.scene import Scene, WatchedEngine, reminder, report, routine, scene

from ollim_bot.domain.jobs import Job
from ollim_bot.domain.occurrences import OccurrenceState
from ollim_bot.testing.engine import Waits


def started(stage: Scene, job: Job) -> asyncio.Task[OccurrenceState]:
    return stage.runs.start(job, stage.occurrence(job))


async def closing(stage: Scene) -> asyncio.Task[None]:
    task = asyncio.create_task(stage.runs.close())
    await stage.settled()
    return task


async def test_with_nothing_going_it_is_over_at_once() -> None:
    async with scene(WatchedEngine()) as stage:
        assert await started(stage, routine()) is OccurrenceState.DONE
        async with asyncio.timeout(60):
            await stage.runs.close()
        assert stage.clock.sleeping == 0


async def test_a_run_may_come_to_its_end() -> None:
    engine = WatchedEngine().then(Waits())
    async with scene(engine) as stage:
        running = started(stage, routine())
        await stage.until(lambda: engine.open_now)
        closed = await closing(stage)
        await stage.clock.advance(19)
        assert not closed.done()
        await engine.open_now[0].interrupt()
        async with asyncio.timeout(60):
            await closed
        assert (await running).is_end
        assert "cut_off" not in stage.states
        assert stage.clock.sleeping == 0


async def test_after_twenty_seconds_it_is_cut_off_and_the_ledger_says_so() -> None:
    engine = WatchedEngine().then(report("Half of it."), Waits())
    async with scene(engine) as stage:
        running = started(stage, routine())
        await stage.until(lambda: stage.pending)
        closed = await closing(stage)
        await stage.clock.advance(20)
        async with asyncio.timeout(60):
            await closed
        assert running.cancelled()
        assert stage.states == ["running", "cut_off"]
        assert stage.rows[-1].facts["report"] == "Half of it."
        assert engine.open_now == []
        assert await stage.told() == []


async def test_who_waits_for_a_place_does_not_begin() -> None:
    engine = WatchedEngine().then(Waits())
    async with scene(engine) as stage:
        stage.configure(bg_concurrency=1)
        running = started(stage, routine("running"))
        await stage.until(lambda: engine.open_now)
        waiting = started(stage, reminder("waiting"))
        await stage.settled()
        closed = await closing(stage)
        assert waiting.cancelled()
        late = started(stage, reminder("late"))
        await engine.open_now[0].interrupt()
        async with asyncio.timeout(60):
            await closed
            with pytest.raises(asyncio.CancelledError):
                await late
        assert running.done()
        assert {row.occurrence.job_id for row in stage.rows if row.occurrence} == {"running"}
        assert len(engine.opened) == 1
