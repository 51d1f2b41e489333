"""The daily cap: above it, jobs do not ask the model, and reminders come nevertheless."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from devtools.doubles.engine import Says, ScriptedEngine, Waits
from tests.scheduling.scene import ScheduleScene, schedule_scene
from tests.scheduling.test_firing import MINUTE

from ollim_bot.domain.chat import Author
from ollim_bot.domain.events import EndCause, TurnEnded, UsageReported
from ollim_bot.domain.inbox import InputId
from ollim_bot.domain.usage import Price, Usage, UsageKind, UsageRow, micros
from ollim_bot.ports import IncomingMessage


def spend(at: ScheduleScene, dollars: float, cap: float | None) -> None:
    now = at.clock.now()
    at.stores.config.transact(lambda config: (replace(config, daily_cost_cap=cap), None))
    row = UsageRow(now, UsageKind.TURN, "m", Price.LISTED, micros(dollars))
    at.store.run(lambda tx: tx.usage.add(row))


async def test_above_the_cap_jobs_are_skipped_and_that_is_told_once(tmp_path: Path) -> None:
    async with schedule_scene(engine := ScriptedEngine(), tmp_path) as at:
        spend(at, 2.5, cap=2.0)
        at.routine("plan", "*/5 * * * *", background="true")
        await at.advance(11 * 60, step=10)
        await at.until(lambda: len(at.ended("plan")) == 2)
        assert engine.prompts == []
        assert {row.facts["reason"] for row in at.ended("plan")} == {"cost cap"}
        await at.clock.advance(2)
        await at.until(lambda: at.told)
        assert len([text for text in at.told if "daily_cost_cap" in text]) == 1


async def test_above_the_cap_a_reminder_comes_as_it_was_written(tmp_path: Path) -> None:
    async with schedule_scene(engine := ScriptedEngine(), tmp_path) as at:
        spend(at, 2.5, cap=2.0)
        at.remind("w1", MINUTE)
        await at.advance(70)
        await at.until(lambda: at.reminders == [])
        assert engine.prompts == []
        assert at.pings == ["Drink water."]
        (message,) = (one for one in at.log if one.author is Author.BACKGROUND)
        assert message.footer == "The agent could not be asked, so here it is as you wrote it."


async def test_below_the_cap_and_without_one_jobs_run(tmp_path: Path) -> None:
    async with schedule_scene(engine := ScriptedEngine(), tmp_path) as at:
        spend(at, 1.5, cap=2.0)
        at.routine("plan", "*/5 * * * *", background="true")
        await at.advance(6 * 60, step=10)
        await at.until(lambda: len(engine.prompts) == 1)
        spend(at, 9.0, cap=None)
        await at.advance(5 * 60, step=10)
        await at.until(lambda: len(engine.prompts) == 2)


async def test_a_cap_that_is_unset_holds_back_nothing_any_more(tmp_path: Path) -> None:
    async with schedule_scene(engine := ScriptedEngine(), tmp_path) as at:
        spend(at, 2.5, cap=2.0)
        at.routine("plan", "*/5 * * * *", background="true")
        await at.advance(6 * 60, step=10)
        await at.until(lambda: len(at.ended("plan")) == 1)
        await at.chat.command("web", "/config daily_cost_cap none")
        await at.advance(5 * 60, step=10)
        await at.until(lambda: len(engine.prompts) == 1)


async def test_runs_reach_the_cap_as_answers_do(tmp_path: Path) -> None:
    usage = Usage(context=1000, cost_usd=1.5)
    engine = ScriptedEngine()
    for _ in range(3):
        engine.then(TurnEnded(EndCause.COMPLETED, usage=usage))
    async with schedule_scene(engine, tmp_path) as at:
        spend(at, 0.5, cap=2.0)
        at.routine("plan", "*/5 * * * *", background="true")
        await at.advance(11 * 60, step=10)
        await at.until(lambda: len(at.ended("plan")) == 2)
        assert [row.state for row in at.ended("plan")] == ["done", "skipped"]
        assert "$2.00" in (await at.chat.command("web", "/cost")).text


async def test_a_run_that_waited_while_others_reached_the_cap_does_not_begin(
    tmp_path: Path,
) -> None:
    dear = TurnEnded(EndCause.COMPLETED, usage=Usage(context=1000, cost_usd=2.5))
    async with schedule_scene(engine := ScriptedEngine().then(dear), tmp_path) as at:
        at.stores.config.transact(lambda config: (replace(config, bg_concurrency=1), None))
        spend(at, 0.0, cap=2.0)
        at.routine("plan", "20 10 * * *", background="true")
        at.remind("w1", MINUTE * 5)
        await at.advance(310)
        await at.until(lambda: at.ended("plan"))
        assert at.states("plan") == ["due", "running", "skipped"]
        assert at.ended("plan")[0].facts["reason"] == "cost cap"
        assert len(engine.prompts) == 1


async def test_a_turn_that_stands_in_the_inbox_is_finished_above_the_cap(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine().then(Waits()), tmp_path) as at:
        at.routine("plan", "20 10 * * *")
        await at.advance(310)
        await at.until(lambda: "running" in at.states("plan"))
        spend(at, 2.5, cap=2.0)
        clock = at.clock
    async with schedule_scene(ScriptedEngine().then(Says("Done.")), tmp_path, clock=clock) as at:
        await at.until(lambda: at.ended("plan"))
        assert at.states("plan") == ["due", "running", "cut_off", "running", "done"]


async def test_what_a_turn_has_cost_that_a_stop_cuts_off_is_counted_once(tmp_path: Path) -> None:
    """The turn goes on after the start, and what it costs then is added."""
    before = UsageReported(Usage(context=1000, cost_usd=0.5, model="m"))
    after = TurnEnded(EndCause.COMPLETED, "Yes.", usage=Usage(1000, cost_usd=0.25, model="m"))
    async with schedule_scene(engine := ScriptedEngine().then(before, Waits()), tmp_path) as at:
        await at.chat.receive(IncomingMessage(InputId("m1"), "web", "hello"))
        await at.until(lambda: engine.prompts)
        clock = at.clock
    async with schedule_scene(ScriptedEngine().then(after), tmp_path, clock=clock) as at:
        await at.until(lambda: any(message.author is Author.ASSISTANT for message in at.log))
        rows = at.store.query(lambda tx: tx.usage.since(clock.now() - 10 * MINUTE))
        assert [(row.kind, row.micros) for row in rows] == [("turn", 500_000), ("turn", 250_000)]
        assert "$0.75" in (await at.chat.command("web", "/cost")).text
