"""Pending updates: the agent is shown each of them once, whatever becomes of the prompt."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import Fails, ScriptedEngine
from tests.conversation.scene import NOW, Scene, scene
from tests.conversation.slow_engine import (
    EveryMoment,
    SlowEngine,
    accepted,
    pass_moments,
    slow_spec,
)
from tests.stores import memory_stores

from ollim_bot.conversation import texts
from ollim_bot.domain.events import FailureKind, Noted
from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.inbox import InputEnd
from ollim_bot.ports import Trace

HEADER = "RECENT BACKGROUND UPDATES (mention key findings in your response)"


def notes(at: Scene) -> list[list[str]]:
    """The notes of each turn, in order."""
    turns = (at.surface.events[start.turn] for start in at.surface.starts)
    return [[event.text for event in turn if isinstance(event, Noted)] for turn in turns]


class OverloadedEngine(ScriptedEngine):
    """Fails before it records a prompt, until it `recovers`."""

    has_recovered = False

    async def trace(self, session: SessionId, prompt: str) -> Trace:
        if self.has_recovered:
            return await super().trace(session, prompt)
        return Trace(is_taken=False)


async def test_updates_are_shown_once_under_their_header_and_a_note_says_so() -> None:
    engine, clock = ScriptedEngine(), ManualClock(NOW)
    stores = memory_stores(NOW)
    stores.leave_update("Checked the mail: 3 need replies.", NOW)
    await clock.advance(300)
    async with scene(engine, stores=stores, clock=clock) as at:
        await at.ask("hello")
        await at.ask("and now?")

        block = f"{HEADER}\n- (5m ago) Checked the mail: 3 need replies."
        assert engine.prompts == [
            f"[2026-02-24 Tue 10:20 AM UTC]\n{block}\n\nhello",
            "[2026-02-24 Tue 10:20 AM UTC]\n\nand now?",
        ]
        assert notes(at) == [[texts.CATCHING_UP], []]
        assert at.pending == []


async def test_updates_of_a_prompt_that_was_not_taken_wait_again_in_order() -> None:
    engine = OverloadedEngine().then(Fails(FailureKind.OVERLOADED)).answers("ok")
    async with scene(engine) as at:
        at.stores.leave_update("first", NOW)
        at.stores.leave_update("second", NOW)
        await at.send("hello")
        await at.until(lambda: at.clock.sleeping)
        at.stores.leave_update("third", NOW)
        await at.clock.advance(1)
        await at.quiet()

        assert at.ends == {"hello": InputEnd.FAILED}
        assert at.pending == ["first", "second", "third"]
        engine.has_recovered = True
        await at.ask("again")
        assert engine.prompts[1].splitlines()[2:5] == [
            "- (just now) first",
            "- (just now) second",
            "- (just now) third",
        ]
        assert at.pending == []


async def test_updates_of_a_prompt_that_was_taken_are_not_shown_again() -> None:
    engine = ScriptedEngine().then(Fails(FailureKind.OVERLOADED)).answers("ok")
    async with scene(engine) as at:
        at.stores.leave_update("first", NOW)
        await at.ask_without_answer("hello")
        assert at.pending == []
        await at.ask("again")
        assert ["first" in prompt for prompt in engine.prompts] == [True, False]


async def test_a_record_that_comes_late_is_waited_for() -> None:
    engine = OverloadedEngine().then(Fails(FailureKind.OVERLOADED)).answers("ok")
    async with scene(engine) as at:
        at.stores.leave_update("first", NOW)
        await at.send("hello")
        await at.until(lambda: at.clock.sleeping)
        engine.has_recovered = True
        await at.clock.advance(1)
        await at.quiet()
        assert at.pending == []


@pytest.mark.usefixtures("inline_executor")
async def test_a_turn_that_was_stopped_before_it_was_asked_gives_its_updates_back() -> None:
    pending = set()
    for moment in (moments := EveryMoment()):
        engine = SlowEngine()
        async with scene(engine, spec=slow_spec) as at:
            at.stores.leave_update("first", NOW)
            sending = await accepted(at, "one")
            await pass_moments(moment)
            assert await at.chat.interrupt()
            await sending
            await at.quiet()
            pending.add(tuple(at.pending))
            moments.is_over = is_asked = bool(engine.prompts)
            assert at.pending == ([] if is_asked else ["first"]), moment

            await at.ask("two")
            assert sum("first" in prompt for prompt in engine.prompts) == 1, moment
    assert pending == {(), ("first",)}


@pytest.mark.usefixtures("inline_executor")
async def test_an_update_that_comes_at_any_moment_of_a_turn_is_shown_once() -> None:
    when = set()
    for moment in (moments := EveryMoment()):
        engine = SlowEngine()
        async with scene(engine, spec=slow_spec) as at:
            at.stores.leave_update("first", NOW)
            sending = await accepted(at, "three")
            await pass_moments(moment)
            moments.is_over = bool(at.answers)
            at.stores.leave_update("second", NOW)
            await sending
            await at.quiet()
            await at.ask("four")

            shown = [[word in prompt for prompt in engine.prompts] for word in ("first", "second")]
            assert shown[0] == [True, False], moment
            assert sorted(shown[1]) == [False, True], moment
            when.add(shown[1].index(True))
    assert when == {0, 1}


async def test_writers_in_other_threads_lose_nothing_while_the_agent_is_asked() -> None:
    engine = ScriptedEngine()
    words = [f"word-{number:03}." for number in range(60)]
    async with scene(engine) as at:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(4) as writers:
            left = [
                loop.run_in_executor(writers, at.stores.leave_update, word, NOW) for word in words
            ]
            for number in range(8):
                await at.ask(f"hello {number}")
            await asyncio.gather(*left)
        await at.ask("what else?")

        shown = Counter(word for prompt in engine.prompts for word in words if word in prompt)
        rows = at.store.query(lambda tx: tx.ledger.page(0, 100)[0])
        dropped = [str(row.facts["message"]) for row in rows]
        assert set(shown.values()) == {1}
        assert sorted([*shown, *dropped]) == words
