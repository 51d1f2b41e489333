"""The daily cap, and every sum of a stretch of everything that costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import Fails, Says, ScriptedEngine, ScriptedSession, Waits
from tests.kernel.schedule.owner_actions import press
from tests.kernel.schedule.scene import NOW, ScheduleScene, schedule_scene
from tests.kernel.schedule.test_firing import MINUTE
from tests.kernel.schedule.webhook_calls import ISSUE, SAFE, UNSAFE, call, write

from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.costs import cost_report
from ollim_bot.kernel.values.events import (
    AgentEvent,
    EndCause,
    FailureKind,
    TurnEnded,
    UsageReported,
)
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import IncomingMessage, Prompt, SessionSpec, Toolset
from ollim_bot.kernel.values.usage import ModelCost, Price, Usage, UsageKind, UsageRow, micros


def spend(at: ScheduleScene, dollars: float, cap: float) -> None:
    now = at.clock.now()
    at.configure("daily_cost_cap", cap)
    row = UsageRow(now, UsageKind.TURN, "m", Price.LISTED, micros(dollars))
    at.store.run(lambda tx: tx.usage.add(row))


async def test_above_the_cap_jobs_are_skipped_which_is_told_once_until_it_is_unset(
    tmp_path: Path,
) -> None:
    async with schedule_scene(engine := ScriptedEngine(), tmp_path) as at:
        spend(at, 2.5, cap=2.0)
        at.routine("plan", "*/5 * * * *", background="true")
        await at.advance(11 * 60, step=10)
        await at.until(lambda: len(at.ended("plan")) == 2)
        assert engine.prompts == []
        assert {row.facts["reason"] for row in at.ended("plan")} == {"cost cap"}
        await at.clock.advance(2)
        await at.until(lambda: at.told)
        await at.chat.command("web", "/config daily_cost_cap none")
        await at.advance(5 * 60, step=10)
        await at.until(lambda: len(engine.prompts) == 1)
        assert len([text for text in at.told if "Today has cost" in text]) == 1


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
        at.configure("bg_concurrency", 1)
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


SUBAGENT = "haiku-of-a-subagent"


class CountingEngine(ScriptedEngine):
    """Charges each turn, with a subagent in some, and counts for itself."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = Counter[str]()
        self._turns = count(1)

    def charge(self, model: str) -> dict[str, int]:
        number = next(self._turns)
        bill = {model: 1000 + number * 7919 % 50_000}
        if number % 3 == 0:
            bill[SUBAGENT] = 100 + number * 104_729 % 9_000
        self.counted.update(bill)
        return bill

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ScriptedSession]:
        async with super().open(spec, tools):
            self.opened[-1] = CountingSession(self, spec, tools)
            yield self.opened[-1]


class CountingSession(ScriptedSession):
    def __init__(self, engine: CountingEngine, spec: SessionSpec, tools: Toolset) -> None:
        super().__init__(engine, spec, tools)
        self._counting = engine

    async def _run(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        model, costs = self.spec.model or "opus", dict(self.usage.by_model)
        for name, spent in self._counting.charge(model).items():
            costs[name] = costs.get(name, 0.0) + spent / 1_000_000
        self.usage = Usage(
            self.usage.context + 10,
            5,
            sum(costs.values()),
            model=model,
            by_model=tuple(ModelCost(*each) for each in costs.items()),
        )
        async for event in super()._run(prompt):
            yield replace(event, usage=self.usage) if isinstance(event, TurnEnded) else event

    def _meter(self, event: AgentEvent) -> None:
        """The session counts by itself."""


class Stretch:
    """What the owner and the world do; each step waits until the bot is idle again."""

    def __init__(self, at: ScheduleScene, engine: CountingEngine, first: int = 1) -> None:
        self.at = at
        self.engine = engine
        self.numbers = count(first)

    async def idle(self) -> None:
        await self.at.advance(40, step=5)
        await self.at.until(lambda: not self.at.talk.state.inbox.accepted)

    async def _say(self, text: str = "hello") -> None:
        name = InputId(f"m{next(self.numbers)}")
        await self.at.chat.receive(IncomingMessage(name, "web", text))

    async def ask(self) -> None:
        self.engine.then(Says("Hello."))
        await self._say()

    async def fail(self) -> None:
        self.engine.then(Fails(FailureKind.OVERLOADED))
        await self._say()

    async def die_and_go_on(self) -> None:
        self.engine.then(Says("Half."), Fails(FailureKind.ENGINE_DIED)).then(Says("Whole."))
        await self._say()

    async def interrupt(self) -> None:
        self.engine.then(Waits())
        await self._say()
        await self.at.advance(10)
        await self.at.chat.interrupt()

    async def fork(self) -> None:
        await self.at.chat.command("web", "/fork about tea")
        await self.idle()
        await self._say("which one?")
        await self.idle()
        card = next(each for each in reversed(self.at.log) if _has(each, "Leave it"))
        await press(self.at, card, "Leave it")

    async def compact(self) -> None:
        await self.at.chat.command("web", "/compact")

    async def clear(self) -> None:
        await self.at.chat.command("web", "/clear")

    async def run_routine(self) -> None:
        self.engine.then(Fails(FailureKind.OVERLOADED)).then(Says("Nothing new."))
        await self._at_its_minute("plan")

    async def run_in_conversation(self) -> None:
        await self._at_its_minute("talk", background="false")

    async def _at_its_minute(self, name: str, **fields: str) -> None:
        at = self.at.clock.now() + timedelta(minutes=2)
        fields = {"background": "true", **fields}
        name = f"{name}{next(self.numbers)}"
        file = self.at.routine(name, f"{at.minute} {at.hour} * * *", **fields)
        await self.at.advance(180, step=10)
        file.unlink()

    async def screened(self) -> None:
        self.engine.then(SAFE)
        await call(self.at, "issue", f"c{next(self.numbers)}", title="words")

    async def refused(self) -> None:
        self.engine.then(UNSAFE)
        await call(self.at, "issue", f"c{next(self.numbers)}", title="words")

    async def be_cut_off(self) -> None:
        """The bot is stopped next."""
        self.engine.then(Waits())
        await self._say()
        await self.at.advance(10)

    async def be_cut_off_in_a_run(self) -> None:
        """The bot is stopped next."""
        self.engine.then(Waits())
        await self._at_its_minute("cut")

    @property
    def steps(self) -> list[Callable[[], Awaitable[None]]]:
        talk = [self.ask, self.fail, self.die_and_go_on, self.interrupt, self.fork, self.compact]
        jobs = [self.run_routine, self.run_in_conversation, self.screened, self.refused]
        return [*talk, *jobs, self.clear]


def _has(message: ChatMessage, label: str) -> bool:
    return message.card is not None and any(each.label == label for each in message.card.buttons)


def assert_all_sums_agree(at: ScheduleScene, engine: CountingEngine) -> None:
    now = at.clock.now()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    begin = now - timedelta(days=370)
    rows = at.store.query(lambda tx: tx.usage.since(begin))
    by_model = Counter[str]()
    for row in rows:
        by_model[row.model] += row.micros
    assert by_model == engine.counted
    report = cost_report(rows, begin, now, None)
    whole = sum(engine.counted.values())
    assert sum(line.amount.micros for line in report.by_day) == whole
    assert sum(line.amount.micros for line in report.by_job) == whole
    assert at.store.query(lambda tx: tx.usage.cost_since(midnight)) == report.today.micros
    said = Counter[str]()
    for entry in at.rows:
        cost = entry.facts.get("cost_usd")
        if entry.occurrence is not None and isinstance(cost, float):
            said[entry.occurrence.id] += round(cost * 1_000_000)
    of_runs = Counter[str]()
    for row in rows:
        if row.occurrence:
            of_runs[row.occurrence] += row.micros
    assert said == of_runs


@pytest.mark.parametrize("seed", range(2))
async def test_every_sum_equals_the_count_of_the_model(tmp_path: Path, seed: int) -> None:
    engine, rng = CountingEngine(), Random(seed)
    async with schedule_scene(engine, tmp_path) as at:
        stretch = Stretch(at, engine)
        write(at, ISSUE)
        await at.advance(15)
        for step in rng.sample(stretch.steps, len(stretch.steps)):
            await step()
            await stretch.idle()
            engine.clear()
            assert_all_sums_agree(at, engine)
        told = (await at.chat.command("web", "/cost")).text
        assert f"${sum(engine.counted.values()) / 1_000_000:.2f}" in told
        rows = at.store.query(lambda tx: tx.usage.since(at.clock.now() - timedelta(days=1)))
        assert {row.kind for row in rows} == {*UsageKind}
        clock = at.clock
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        await Stretch(at, engine).ask()
        await at.advance(20)
        assert_all_sums_agree(at, engine)


@pytest.mark.minutes
async def test_in_a_year_every_sum_equals_the_count_of_the_model(tmp_path: Path) -> None:
    """Every few days the bot is stopped, mostly in the middle of something."""
    engine, rng, clock, number = CountingEngine(), Random(365), ManualClock(NOW), 1
    kinds, end = Counter[str](), NOW + timedelta(days=365)
    while clock.now() < end:
        async with schedule_scene(engine, tmp_path, clock=clock) as at:
            stretch = Stretch(at, engine, number)
            write(at, ISSUE)
            await stretch.idle()
            for step in rng.sample(stretch.steps, 3):
                await step()
                await stretch.idle()
                engine.clear()
                clock.jump(rng.choice([600, 3600, 86_400]))
                await stretch.idle()
            assert_all_sums_agree(at, engine)
            rows = at.store.query(lambda tx: tx.usage.since(NOW))
            kinds.update(row.kind for row in rows)
            await rng.choice([stretch.idle, stretch.be_cut_off, stretch.be_cut_off_in_a_run])()
            number = next(stretch.numbers)
        engine.clear()
        clock.jump(rng.choice([60, 86_400, 2 * 86_400]))
    assert {*kinds} == {*UsageKind}
