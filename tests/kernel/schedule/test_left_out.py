"""Skip once, pause, cancel: what the owner decides about a job holds, also through a crash."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from devtools.doubles.engine import ScriptedEngine
from tests.kernel.schedule.owner_actions import asks, card_of, pings, press, skip
from tests.kernel.schedule.scene import NOW, schedule_scene

from ollim_bot.kernel.base.job_kinds import JobKind

MINUTE = timedelta(minutes=1)


async def test_skipping_once_leaves_out_the_next_moment_alone(tmp_path: Path) -> None:
    async with schedule_scene(engine := ScriptedEngine(), tmp_path) as at:
        at.routine("plan", "*/10 * * * *", background="true")
        message = await card_of(at, "/routines")
        said = await press(at, message, "Skip once")
        assert said == (
            "Skipped: Plan the day, today 10:20. It comes again today 10:30 (in 15 min)."
        )
        await at.advance(16 * 60, step=30)
        await at.until(lambda: len(at.ended("plan")) == 2)
        first, second = at.ended("plan")
        assert (first.state, first.facts["reason"]) == ("skipped", "policy")
        assert second.state == "done"
        assert len(engine.prompts) == 1
        await at.until(lambda: not at.stores.state.query(lambda tx: tx.skips.get()).moments)


async def test_what_was_skipped_while_the_bot_was_away_is_not_told_as_missed(
    tmp_path: Path,
) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.routine("plan", "20 10 * * *", background="true", late="tell")
        await at.advance(15)
        skip(at, "plan", datetime(2026, 2, 24, 10, 20, tzinfo=UTC))
        clock = at.clock
    clock.jump(4 * 3600)
    async with schedule_scene(engine := ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.advance(10)
        await at.until(lambda: at.ended("plan"))
        (row,) = at.ended("plan")
        assert (row.state, row.facts["reason"]) == ("skipped", "policy")
        assert (at.told, engine.prompts) == ([], [])


async def test_a_run_by_hand_is_not_skipped(tmp_path: Path) -> None:
    async with schedule_scene(engine := ScriptedEngine(), tmp_path) as at:
        at.routine("plan", "15 10 * * *", background="true")
        skip(at, "plan", NOW)
        asks(at, JobKind.ROUTINE, "plan")
        await at.advance(2, step=1)
        await at.until(lambda: at.ended("plan"))
        assert [row.state for row in at.ended("plan")] == ["done"]
        assert len(engine.prompts) == 1


async def test_a_paused_job_does_not_come_until_it_is_resumed(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.routine("plan", "*/5 * * * *", background="true")
        message = await card_of(at, "/routines")
        await press(at, message, "Pause")
        await at.advance(6 * 60, step=30)
        assert at.states("plan") == []
        await press(at, message, "Resume")
        await at.advance(5 * 60, step=30)
        await at.until(lambda: at.ended("plan"))


async def test_a_cancelled_job_does_not_come_and_undo_brings_it_back(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine().then(pings("Now.")), tmp_path) as at:
        path = at.remind("w1", 5 * MINUTE)
        before = path.read_bytes()
        message = await card_of(at, "/reminders")
        assert await press(at, message, "Cancel") == "Cancelled: Drink water."
        await at.advance(60)
        assert at.reminders == []
        assert await press(at, message, "Undo") == "Undone. “Drink water.” is as it was before."
        assert path.read_bytes() == before
        await at.advance(240)
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["Now."]
