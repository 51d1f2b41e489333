"""After a restart: what was cut off goes on, what waited is taken, and what cannot be is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from devtools.doubles.engine import CallsTool, Fails, Says, ScriptedEngine, Waits
from devtools.doubles.memory import RecordingStore
from tests.kernel.conversation.scene import NOW, Scene, scene
from tests.kernel.conversation.slow_engine import (
    EveryMoment,
    ImageRecordingEngine,
    SlowEngine,
    half_way,
    pass_moments,
    slow_spec,
)
from tests.kernel.prompts.prompt_parts import unnumbered
from tests.stores import Stores, on_store

from ollim_bot.kernel.values.events import FailureKind, TextCompleted, TextStreamed, TextWithdrawn
from ollim_bot.kernel.values.inbox import InputEnd
from ollim_bot.kernel.values.ports import Image, IncomingFile, Trace

DIES = Fails(FailureKind.ENGINE_DIED)


async def cut_off(
    engine: ScriptedEngine, *updates: str, files: tuple[IncomingFile, ...] = ()
) -> Stores:
    """The bot is stopped while it says `one` what `engine` says first."""
    async with scene(engine) as at:
        for update in updates:
            at.stores.leave_update(update, NOW)
        await at.send("one", files=files)
        await half_way(at)
    return at.stores


def copy_of(stores: Stores) -> Stores:
    assert isinstance(stores.state, RecordingStore)
    return on_store(stores, stores.state.copied())


async def test_a_turn_that_was_cut_off_is_continued_in_the_same_session() -> None:
    engine = ImageRecordingEngine().then(
        CallsTool("Bash", {"command": "ls"}), Says("First,"), Waits()
    )
    stores = await cut_off(engine, files=(IncomingFile("cat.png", Path("x")),))
    engine.answers("First, this. Second, that.")
    async with scene(engine, stores=stores) as at:
        await at.quiet()

        assert [answer.text for answer in at.answers] == ["First, this. Second, that."]
        assert engine.prompts[1].startswith("[system]\n[2026-02-24 Tue 10:15 AM UTC]\n\n")
        assert "- Bash\n" in engine.prompts[1]
        assert "one" not in engine.prompts[1].splitlines()
        assert engine.seen[1] == ()
        assert len({session.id for session in engine.opened}) == 1
        assert at.ends == {"one": InputEnd.ANSWERED}
        assert await at.ask("two") == "ok"


async def test_an_answer_that_the_engine_still_has_is_given_without_asking_again() -> None:
    engine = ScriptedEngine().then(Says("All of it."), Waits())
    stores = await cut_off(engine)
    engine.traces = {
        key: Trace(is_taken=True, is_complete=True, answer="All of it.") for key in engine.traces
    }
    async with scene(engine, stores=stores) as at:
        await at.quiet()
        assert [(answer.text, answer.is_cut_off) for answer in at.answers] == [
            ("All of it.", False)
        ]
        assert len(engine.prompts) == 1
        assert at.ends == {"one": InputEnd.ANSWERED}


async def test_a_prompt_that_was_never_taken_is_asked_as_if_for_the_first_time() -> None:
    engine = ImageRecordingEngine().then(TextStreamed("First,"), Waits())
    picture = IncomingFile("cat.png", Path("x"))
    stores = await cut_off(engine, files=(picture,))
    engine.traces.clear()
    async with scene(engine, stores=stores) as at:
        await at.quiet()
        assert unnumbered(engine.prompts[0]) == unnumbered(engine.prompts[1])
        assert engine.seen == [(Image("image/png", b"cat.png"),)] * 2
        assert [answer.text for answer in at.answers] == ["ok"]


async def test_what_the_engine_said_before_it_died_stays_and_is_marked() -> None:
    engine = ScriptedEngine()
    engine.then(TextCompleted("First, this."), TextStreamed("Sec"), TextWithdrawn(), DIES)
    engine.answers("First, this. Second, that.")
    async with scene(engine) as at:
        await at.send("one")
        await at.quiet()
        assert [(answer.text, answer.is_cut_off) for answer in at.answers] == [
            ("First, this.", True),
            ("First, this. Second, that.", False),
        ]
        assert at.told == []


async def test_after_two_attempts_a_message_is_set_aside_and_told() -> None:
    engine = ScriptedEngine().then(DIES).then(DIES).answers("Yes?", "I know.")
    async with scene(engine) as at:
        await at.send("one")
        await at.quiet()

        told = "A message could not be answered in two attempts and was set aside: “one”. Send it "
        assert at.told == [f"{told}again, in other words if you can."]
        assert at.ends == {"one": InputEnd.SET_ASIDE}
        assert len(engine.prompts) == 2
        assert await at.ask("two") == "Yes?"
        assert at.told[0] in engine.prompts[2]
        assert await at.ask("three") == "I know."
        assert "set aside" not in engine.prompts[3]


async def test_a_file_that_is_set_aside_is_named() -> None:
    async with scene(ScriptedEngine().then(DIES).then(DIES)) as at:
        await at.send("", "m1", files=(IncomingFile("cat.png", Path("x")),))
        await at.quiet()
        assert "“cat.png”" in at.told[0]


@asynccontextmanager
async def compacting(engine: ScriptedEngine) -> AsyncIterator[Scene]:
    """In the middle of `/compact`."""
    async with scene(engine) as at:
        await at.ask("hello")
        engine.then(Waits())
        command = asyncio.create_task(at.chat.command("web", "/compact"))
        await at.until(lambda: len(engine.prompts) == 2)
        yield at
        command.cancel()


async def test_a_command_that_was_cut_off_is_told_and_not_run_again() -> None:
    engine = ScriptedEngine()
    async with compacting(engine) as at:
        pass
    async with scene(engine, stores=at.stores) as again:
        await again.until(lambda: again.talk.state.is_idle)
        assert again.told == [
            "`/compact` was cut off by a restart. Run it again if it is still wanted."
        ]
        assert engine.prompts[-1] == "/compact"
        await again.ask("two")
        assert again.told[0] in engine.prompts[-1]


@pytest.mark.usefixtures("inline_executor")
@pytest.mark.parametrize("is_taken", [True, False], ids=["taken", "not taken"])
async def test_a_turn_that_is_continued_can_be_stopped_at_any_moment(is_taken: bool) -> None:
    first = SlowEngine()
    stores = await cut_off(first, "an update")
    if not is_taken:
        first.traces.clear()
    for moment in (moments := EveryMoment()):
        engine = first.copied()
        async with scene(engine, stores=copy_of(stores), spec=slow_spec) as again:
            await pass_moments(moment)
            moments.is_over = bool(again.answers)
            is_stopped = await again.chat.interrupt()
            await again.quiet()
            how = again.ends["one"]
            assert is_stopped != (how is InputEnd.ANSWERED), moment
            assert await again.ask("two") == "ok"
            assert len(again.ends) == 2
            taken = engine.prompts if is_taken else engine.prompts[1:]
            assert sum("an update" in prompt for prompt in taken) == 1, moment
            moments.is_over |= len(engine.prompts) > 2


@pytest.mark.usefixtures("inline_executor")
async def test_what_the_engine_knows_is_not_said_again_whenever_a_newer_message_comes() -> None:
    first = SlowEngine()
    stores = await cut_off(first)
    for moment in (moments := EveryMoment()):
        engine = first.copied()
        async with scene(engine, stores=copy_of(stores), spec=slow_spec) as again:
            await pass_moments(moment)
            moments.is_over = bool(again.answers)
            await again.send("two")
            await again.quiet()
            assert set(again.ends) == {"one", "two"}
            said = [line for prompt in engine.prompts for line in prompt.splitlines()]
            assert (said.count("one"), said.count("two")) == (1, 1), moment
