"""How many background runs run at once, and which one is next."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from devtools.doubles.engine import Waits
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.background.scene import NOW, WatchedEngine, background_scene, reminder, routine
from tests.examples import examples

from ollim_bot.conversation.background import Slots
from ollim_bot.domain.jobs import Job


async def test_no_more_than_the_setting_run_at_once() -> None:
    engine = WatchedEngine()
    for _ in range(5):
        engine.then(Waits())
    async with background_scene(engine) as scene:
        for number in range(5):
            _ = scene.start(routine(f"job-{number}"))
        await scene.until(lambda: len(engine.open_now) == 3)
        await scene.settled()
        assert len(engine.open_now) == 3
        assert scene.states.count("running") == 3
        await engine.open_now[0].interrupt()
        await scene.until(lambda: len(engine.opened) == 4)
        await scene.settled()
        assert len(engine.open_now) == 3


async def test_who_waits_comes_by_due_time_and_reminders_first() -> None:
    engine = WatchedEngine().then(Waits())
    async with background_scene(engine) as scene:
        scene.configure(bg_concurrency=1)
        _ = scene.start(routine("running"))
        await scene.until(lambda: engine.open_now)
        late, later = NOW + timedelta(minutes=1), NOW + timedelta(minutes=2)
        waiting: list[tuple[Job, int]] = [
            (routine("r-later"), 2),
            (reminder("m-later"), 2),
            (routine("r-late"), 1),
            (reminder("m-late"), 1),
        ]
        for job, minute in waiting:
            _ = scene.start(job, late if minute == 1 else later)
            await scene.settled()
        assert scene.states == ["running"]
        await engine.open_now[0].interrupt()
        await asyncio.gather(*scene.tasks)
        begun = [
            row.occurrence.job_id for row in scene.rows if row.state == "running" and row.occurrence
        ]
        assert begun == ["running", "m-late", "m-later", "r-late", "r-later"]


async def test_who_gives_up_waiting_leaves_no_trace_and_keeps_no_place() -> None:
    engine = WatchedEngine().then(Waits())
    async with background_scene(engine) as scene:
        scene.configure(bg_concurrency=1)
        _ = scene.start(routine("running"))
        await scene.until(lambda: engine.open_now)
        gone, next_one = scene.start(reminder("gone")), scene.start(routine("next"))
        await scene.settled()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await engine.open_now[0].interrupt()
        await next_one
        assert "gone" not in {row.occurrence.job_id for row in scene.rows if row.occurrence}


async def test_a_raised_setting_counts_from_the_next_job_on() -> None:
    slots, inside = Slots(), 0
    release = asyncio.Event()

    async def one(most: int) -> None:
        nonlocal inside
        async with slots.slot((0, 0.0), most):
            inside += 1
            await release.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(one(1))
        await asyncio.sleep(0)
        assert inside == 1
        group.create_task(one(3))
        for _ in range(3):
            await asyncio.sleep(0)
        assert inside == 3
        release.set()
    assert inside == 4


async def test_who_gives_up_in_the_moment_of_being_called_passes_the_place_on() -> None:
    slots = Slots()

    async def one() -> None:
        async with slots.slot((0, 0.0), 1):
            pass

    async with slots.slot((0, 0.0), 1):
        called, waiting = asyncio.create_task(one()), asyncio.create_task(one())
        await asyncio.sleep(0)
    called.cancel()
    async with asyncio.timeout(60):
        await asyncio.gather(called, return_exceptions=True)
        await waiting


@settings(max_examples=examples(1.5), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.booleans()), max_size=12),
    st.integers(1, 3),
)
def test_whoever_is_cancelled_at_whatever_moment_no_place_is_lost(
    jobs: list[tuple[int, int, bool]], most: int
) -> None:
    async def play() -> None:
        slots, inside, peak = Slots(), 0, 0

        async def one(rank: int) -> None:
            nonlocal inside, peak
            async with slots.slot((rank, 0.0), most):
                inside += 1
                peak = max(peak, inside)
                try:
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                finally:
                    inside -= 1

        tasks = []
        for rank, pause, is_cancelled in jobs:
            task = asyncio.ensure_future(one(rank))
            tasks.append(task)
            for _ in range(pause):
                await asyncio.sleep(0)
            if is_cancelled:
                task.cancel()
        async with asyncio.timeout(60):
            await asyncio.gather(*tasks, return_exceptions=True)
            async with slots.slot((0, 0.0), most):
                pass
        assert peak <= most
        assert inside == 0
        assert slots._running == 0

    asyncio.run(play())
