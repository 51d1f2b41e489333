"""The program itself delivers plain jobs at their moment, and routines that must come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from devtools.doubles.engine import CallsTool, Fails, Says, ScriptedEngine, Step, Waits
from tests.kernel.schedule.owner_actions import pings
from tests.kernel.schedule.scene import schedule_scene
from tests.kernel.schedule.test_costs import spend
from tests.kernel.schedule.test_firing import MINUTE

from ollim_bot.kernel.values.events import FailureKind

PLAIN = {"plain": "true"}


async def test_a_plain_reminder_comes_at_its_moment_without_any_model(tmp_path: Path) -> None:
    async with schedule_scene(engine := ScriptedEngine(), tmp_path) as at:
        at.remind("w1", 2 * MINUTE, **PLAIN)
        await at.advance(119.6, step=1)
        assert at.pings == []
        await at.advance(0.2, step=0.1)
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["Drink water."]
        assert engine.prompts == []
        assert at.states("w1") == ["due", "done", "delivered"]
        (end,) = at.ended("w1")
        assert end.facts == {"job": "Drink water.", "plain": True}
        assert at.is_right


async def test_a_plain_routine_comes_each_time_and_asks_for_an_answer(tmp_path: Path) -> None:
    async with schedule_scene(engine := ScriptedEngine(), tmp_path) as at:
        at.routine("water", "*/10 * * * *", "Drink water.", **PLAIN)
        await at.advance(16 * 60, step=30)
        await at.until(lambda: len(at.ended("water")) == 2)
        assert at.pings == ["Drink water."] * 2
        assert [(each.title, each.earlier_count) for each in at.items] == [("Drink water.", 1)]
        assert engine.prompts == []
        assert at.is_right


async def test_a_plain_reminder_waits_for_no_slot_and_no_cost_cap(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    for _ in range(4):
        engine.then(Waits())
    async with schedule_scene(engine, tmp_path) as at:
        for name in ("a", "b", "c", "d"):
            at.routine(name, "16 10 * * *", background="true")
        at.remind("w1", 2 * MINUTE, **PLAIN)
        await at.advance(70)
        spend(at, 2.5, cap=2.0)
        await at.advance(55)
        assert at.pings == ["Drink water."]


@pytest.mark.parametrize(
    "agent",
    [[Says("I say nothing.")], [Fails(FailureKind.LOGIN)], [Waits()]],
    ids=["silent", "without a model", "slow"],
)
async def test_a_routine_that_must_come_comes_without_the_agent(
    tmp_path: Path, agent: Sequence[Step]
) -> None:
    async with schedule_scene(ScriptedEngine().then(*agent), tmp_path) as at:
        at.routine("meds", "16 10 * * *", "Take the blue pill.", background="true", must="true")
        await at.advance(125)
        assert at.pings == ["Take the blue pill."]
        assert [each.title for each in at.items] == ["Take the blue pill."]
        await at.advance(60)
        assert at.told == []


async def test_a_routine_that_must_come_comes_while_its_last_run_goes_on(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(Waits()).then(Waits())
    async with schedule_scene(engine, tmp_path) as at:
        at.routine("meds", "*/2 * * * *", "Take the blue pill.", background="true", must="true")
        await at.advance(220, step=10)
        assert at.pings == ["Take the blue pill."] * 2
        (skipped,) = at.ended("meds")
        assert skipped.facts["reason"] == "overlap"


async def test_the_ping_of_a_routine_that_must_come_costs_nothing_of_the_budget(
    tmp_path: Path,
) -> None:
    async with schedule_scene(ScriptedEngine().then(pings("The blue one!")), tmp_path) as at:
        at.routine("meds", "16 10 * * *", "Take the blue pill.", background="true", must="true")
        await at.advance(125)
        assert at.pings == ["The blue one!"]
        budget = at.store.query(lambda tx: tx.budget.get())
        assert budget.tokens == budget.capacity


async def test_the_own_words_of_a_job_reach_the_owner_below_those_of_the_agent(
    tmp_path: Path,
) -> None:
    words = "Take the blue pill with a glass of water, and not before you have eaten something."
    async with schedule_scene(ScriptedEngine().then(pings("Pill time!")), tmp_path) as at:
        at.remind("meds", MINUTE, words)
        await at.advance(70)
        (message,) = (each for each in at.log if each.card is not None)
        assert message.card is not None
        assert (message.card.title, message.card.description) == ("Pill time!", words)


@pytest.mark.parametrize("tool", ["discord_embed", "send_file"])
async def test_a_card_and_a_file_of_the_agent_ask_for_the_answer_too(
    tmp_path: Path, tool: str
) -> None:
    given = {"discord_embed": {"title": "Pills"}, "send_file": {"file_path": "notes.md"}}
    engine = ScriptedEngine().then(CallsTool(f"mcp__discord__{tool}", given[tool]))
    async with schedule_scene(engine, tmp_path) as at:
        (tmp_path / "notes.md").write_text("blue")
        at.routine("meds", "16 10 * * *", "Take the blue pill.", background="true", must="true")
        await at.advance(125)
        (item,) = at.items
        (message,) = (each for each in at.log if each.occurrence == item.occurrence)
        assert message.card is not None
        assert message.id == item.card
        assert next(each.label for each in message.card.buttons) == "Done"


async def test_the_answer_to_a_foreground_job_is_followed_by_the_card_that_asks(
    tmp_path: Path,
) -> None:
    async with schedule_scene(ScriptedEngine().answers("Time for the blue one."), tmp_path) as at:
        at.routine("meds", "16 10 * * *", "Take the blue pill.", must="true")
        await at.advance(70)
        await at.until(lambda: at.states("meds")[-1:] == ["delivered"])
        assert [each.text for each in at.log] == ["Time for the blue one.", "Take the blue pill."]
        (item,) = at.items
        assert item.card == at.log[-1].id
        assert at.states("meds") == ["due", "running", "done", "delivered"]
