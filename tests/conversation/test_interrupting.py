"""A newer message and `interrupt` stop the turn that runs, and nothing else."""

from __future__ import annotations

import asyncio

import pytest
from devtools.doubles.clock import A_FRACTION, ManualClock
from devtools.doubles.engine import Says, ScriptedEngine, Waits
from tests.conversation.scene import NOW, scene
from tests.conversation.slow_engine import half_way, pass_moments

from ollim_bot.conversation import texts
from ollim_bot.domain.events import Compacted, CompactionStarted, TextStreamed
from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.inbox import InputEnd, InputId


async def test_a_newer_message_interrupts_the_turn_and_the_older_one_is_superseded() -> None:
    engine = ScriptedEngine().then(TextStreamed("The first thing is"), Waits()).answers("Blue.")
    async with scene(engine) as at:
        await at.send("tell me everything", "one")
        await half_way(at)
        await at.send("just the colour", "two")
        await at.quiet()

        assert at.ends == {"one": InputEnd.SUPERSEDED, "two": InputEnd.ANSWERED}
        assert [(each.text, each.is_cut_off) for each in at.answers] == [
            ("The first thing is", True),
            ("Blue.", False),
        ]
        assert [each.text for each in at.log if each.id in ("one", "two")] == [
            "tell me everything",
            "just the colour",
        ]
        assert at.told == []


async def test_a_cut_off_answer_keeps_when_its_first_words_came() -> None:
    engine = ScriptedEngine().then(TextStreamed("The first thing is"), Waits()).answers("Blue.")
    clock = ManualClock(NOW)
    async with scene(engine, clock=clock) as at:
        await at.send("tell me everything", "one")
        await half_way(at)
        await clock.advance(60)
        await at.send("just the colour", "two")
        await at.quiet()
        cut_off, newer = at.answers[0], next(each for each in at.log if each.id == "two")

        assert cut_off.began == NOW + A_FRACTION
        assert cut_off.began < newer.at <= cut_off.at


async def test_messages_that_waited_together_are_one_prompt_with_one_timestamp() -> None:
    engine = ScriptedEngine().answers("All three.")
    clock = ManualClock(NOW)
    async with scene(engine, clock=clock, runs=False) as at:
        for text in ("one", "two", "three"):
            await at.send(text)
            await clock.advance(60)
        at.tasks.append(asyncio.create_task(at.talk.loop.run()))
        await at.quiet()

        assert engine.prompts == ["[2026-02-24 Tue 10:18 AM UTC]\n\none\n\ntwo\n\nthree"]
        assert at.surface.starts[0].inputs == ("one", "two", "three")
        assert set(at.ends.values()) == {InputEnd.ANSWERED}
        assert len(at.answers) == 1


@pytest.mark.usefixtures("inline_executor")
async def test_a_message_during_compaction_waits() -> None:
    engine = ScriptedEngine().then(CompactionStarted(), Waits()).answers("ok")
    async with scene(engine) as at:
        await at.send("one")
        await at.until(lambda: at.surface.starts and engine.prompts)
        turn = at.surface.starts[0].turn
        await at.until(lambda: CompactionStarted() in at.surface.events[turn])
        await at.send("two")
        await pass_moments(200)

        assert len(engine.prompts) == 1
        assert at.ends == {}
        assert await at.chat.interrupt()
        await at.quiet()
        assert at.ends == {"one": InputEnd.SUPERSEDED, "two": InputEnd.ANSWERED}


async def test_a_message_does_not_interrupt_a_compaction_that_was_asked_for() -> None:
    engine = ScriptedEngine().answers("Hi.").then(Compacted(SessionId("s")), Waits()).answers("ok")
    async with scene(engine) as at:
        await at.ask("hello")
        command = asyncio.create_task(at.chat.command("web", "/compact"))
        await at.until(lambda: len(engine.prompts) == 2)
        await at.send("one")
        await pass_moments(200)
        assert not command.done()
        assert await at.chat.interrupt()
        await command
        await at.quiet()
        assert at.ends["one"] is InputEnd.ANSWERED


async def test_after_a_compaction_a_message_interrupts_again() -> None:
    engine = ScriptedEngine()
    engine.then(
        CompactionStarted(), Compacted(SessionId("s")), TextStreamed("Now"), Waits()
    ).answers("ok")
    async with scene(engine) as at:
        await at.send("one")
        await half_way(at)
        await at.send("two")
        await at.quiet()
        assert at.ends == {"one": InputEnd.SUPERSEDED, "two": InputEnd.ANSWERED}


async def test_a_command_in_between_keeps_its_place() -> None:
    engine = ScriptedEngine().answers("first", "short", "second")
    async with scene(engine, runs=False) as at:
        await at.send("one")
        command = asyncio.create_task(at.chat.command("web", "/compact"))
        await at.until(lambda: len(at.rows) == 2)
        await at.send("two")
        at.tasks.append(asyncio.create_task(at.talk.loop.run()))
        await command
        await at.quiet()

        asked = [prompt.rpartition("\n")[2] for prompt in engine.prompts]
        assert asked == ["one", "/compact", "two"]
        said = [each.text for each in at.log]
        assert said == ["one", "two", "first", texts.COMPACTED_NOTHING, "second"]


async def test_an_interrupt_stops_the_turn_and_drops_nothing_else() -> None:
    engine = ScriptedEngine().then(Says("Half"), Waits()).answers("Yes.")
    async with scene(engine) as at:
        await at.send("one")
        await half_way(at)
        assert await at.chat.interrupt()
        await at.quiet()

        assert at.ends == {"one": InputEnd.STOPPED}
        assert [(each.text, each.is_cut_off) for each in at.answers] == [("Half", True)]
        assert at.told == []
        assert await at.ask("two") == "Yes."
        assert len(engine.opened) == 1


async def test_a_turn_that_was_stopped_before_a_word_says_so() -> None:
    engine = ScriptedEngine().then(Waits())
    async with scene(engine) as at:
        await at.send("one")
        await at.until(lambda: engine.prompts)
        assert await at.chat.interrupt()
        await at.quiet()
        assert (at.told, at.answers) == ([texts.STOPPED], [])


async def test_with_nothing_running_an_interrupt_does_nothing() -> None:
    async with scene(ScriptedEngine().answers("Hi.", "Yes.")) as at:
        assert not await at.chat.interrupt()
        assert await at.ask("hello") == "Hi."
        assert not await at.chat.interrupt()
        assert await at.ask("really?") == "Yes."
        assert at.told == []


async def test_an_interrupt_of_a_message_that_was_withdrawn_stops_no_other() -> None:
    async with scene(ScriptedEngine(), runs=False) as at:
        await at.send("one")
        assert await at.chat.interrupt()
        assert await at.chat.withdraw(InputId("one"))
        at.tasks.append(asyncio.create_task(at.talk.loop.run()))
        assert await at.ask("two") == "ok"
