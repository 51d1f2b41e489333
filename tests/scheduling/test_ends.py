"""An occurrence that is not run ends too: once, as the ledger allows, and without a repetition."""

from __future__ import annotations

from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine, Waits
from tests.scheduling.scene import NOW, ScheduleScene, schedule_scene
from tests.scheduling.test_firing import MINUTE
from tests.scheduling.test_restarting import WATER

from ollim_bot.domain.inbox import InputId
from ollim_bot.domain.ledger_check import check
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.ports import IncomingMessage


async def ask(at: ScheduleScene, text: str) -> None:
    await at.chat.receive(IncomingMessage(InputId(text), "web", text))


async def test_a_reminder_that_waits_behind_a_long_answer_comes_and_ends(tmp_path: Path) -> None:
    async with schedule_scene(engine := ScriptedEngine().then(Waits()), tmp_path) as at:
        at.remind("w1", MINUTE, background="false")
        await at.advance(30)
        await ask(at, "Tell me all.")
        await at.until(lambda: engine.prompts)
        await at.advance(100)
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["Drink water."]
        assert at.states("w1") == ["due", "skipped", "delivered"]
        assert check(at.rows, at.clock.now(), at.clock.now()) == []
        assert len(engine.prompts) == 1


@pytest.mark.parametrize(
    "end", [("missed", ""), ("skipped", "policy"), ("skipped", "superseded")], ids="-".join
)
async def test_a_reminder_that_was_left_out_does_not_come_after_a_crash(
    tmp_path: Path, end: tuple[str, str]
) -> None:
    """The bot crashed before it removed the file."""
    clock, (state, reason) = ManualClock(NOW), end
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock, runs=False) as at:
        at.remind("w1", MINUTE)
        await clock.advance(90)
        due = LedgerRow(clock.now(), "due", WATER)
        at.stores.ledger.append(due, LedgerRow(clock.now(), state, WATER, {"reason": reason}))
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.until(lambda: at.reminders == [])
        assert at.pings == []
        assert [row.state for row in at.ended("w1")] == [state]
