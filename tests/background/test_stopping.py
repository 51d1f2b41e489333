"""When the bot stops, runs get some time to end, then they are cut off; no new run begins."""

from __future__ import annotations

import asyncio

import pytest
from devtools.doubles.engine import Waits
from tests.background.scene import Scene, WatchedEngine, background_scene, reminder, report, routine

from ollim_bot.domain.jobs import Job
from ollim_bot.domain.occurrences import OccurrenceState


def started(scene: Scene, job: Job) -> asyncio.Task[OccurrenceState]:
    return scene.runs.start(job, scene.occurrence(job))


async def closing(scene: Scene) -> asyncio.Task[None]:
    task = asyncio.create_task(scene.runs.close())
    await scene.settled()
    return task


async def test_with_nothing_going_it_is_over_at_once() -> None:
    async with background_scene(WatchedEngine()) as scene:
        assert await started(scene, routine()) is OccurrenceState.DONE
        async with asyncio.timeout(60):
            await scene.runs.close()
        assert scene.clock.sleeping == 0


async def test_a_run_may_come_to_its_end() -> None:
    engine = WatchedEngine().then(Waits())
    async with background_scene(engine) as scene:
        running = started(scene, routine())
        await scene.until(lambda: engine.open_now)
        closed = await closing(scene)
        await scene.clock.advance(19)
        assert not closed.done()
        await engine.open_now[0].interrupt()
        async with asyncio.timeout(60):
            await closed
        assert (await running).is_end
        assert "cut_off" not in scene.states
        assert scene.clock.sleeping == 0


async def test_after_twenty_seconds_it_is_cut_off_and_the_ledger_says_so() -> None:
    engine = WatchedEngine().then(report("Half of it."), Waits())
    async with background_scene(engine) as scene:
        running = started(scene, routine())
        await scene.until(lambda: scene.pending)
        closed = await closing(scene)
        await scene.clock.advance(20)
        async with asyncio.timeout(60):
            await closed
        assert running.cancelled()
        assert scene.states == ["running", "cut_off"]
        assert scene.rows[-1].facts["report"] == "Half of it."
        assert engine.open_now == []
        assert await scene.told() == []


async def test_who_waits_for_a_place_does_not_begin() -> None:
    engine = WatchedEngine().then(Waits())
    async with background_scene(engine) as scene:
        scene.configure(bg_concurrency=1)
        running = started(scene, routine("running"))
        await scene.until(lambda: engine.open_now)
        waiting = started(scene, reminder("waiting"))
        await scene.settled()
        closed = await closing(scene)
        assert waiting.cancelled()
        late = started(scene, reminder("late"))
        await engine.open_now[0].interrupt()
        async with asyncio.timeout(60):
            await closed
            with pytest.raises(asyncio.CancelledError):
                await late
        assert running.done()
        assert {row.occurrence.job_id for row in scene.rows if row.occurrence} == {"running"}
        assert len(engine.opened) == 1
