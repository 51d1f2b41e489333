"""At any moment of a turn, a message or an interrupt loses nothing and doubles nothing."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

import pytest
from devtools.doubles.engine import ScriptedEngine
from tests.kernel.conversation.scene import Scene, scene
from tests.kernel.conversation.slow_engine import (
    EveryMoment,
    SlowEngine,
    accepted,
    has_begun,
    pass_moments,
    slow_spec,
)
from tests.kernel.conversation.surfaces import SlowSurface

from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.values.events import EndCause, TurnEnded
from ollim_bot.kernel.values.inbox import Ended, InputEnd, InputId

pytestmark = pytest.mark.usefixtures("inline_executor")


@pytest.mark.parametrize("is_resumed", [False, True], ids=["fresh", "resumed"])
async def test_an_interrupt_counts_from_the_moment_of_accepting(is_resumed: bool) -> None:
    for moment in (moments := EveryMoment()):
        engine = SlowEngine()
        async with scene(engine, spec=slow_spec) as at:
            if is_resumed:
                await at.ask("hello")
            sending = await accepted(at, "one")
            await pass_moments(moment)
            moments.is_over = has_begun(at)
            assert await at.chat.interrupt(), moment
            await sending
            await at.quiet()

            assert at.ends["one"] is InputEnd.STOPPED, moment
            last = at.surface.events[at.surface.starts[-1].turn][-1]
            assert isinstance(last, TurnEnded)
            assert last.cause is EndCause.INTERRUPTED
            assert await at.ask("two") == "ok", moment
            is_heard = any(each.text == "Half" for each in at.answers)
            assert at.told == ([] if is_heard else [texts.STOPPED]), moment


async def test_whenever_a_newer_message_comes_the_older_one_is_read_once_and_has_an_end() -> None:
    for moment in (moments := EveryMoment()):
        engine = SlowEngine()
        async with scene(engine, spec=slow_spec) as at:
            sending = await accepted(at, "one")
            await pass_moments(moment)
            moments.is_over = has_begun(at)
            await asyncio.gather(sending, at.send("two"))
            await at.quiet()

            is_together = engine.prompts[0].endswith("one\n\ntwo")
            how = InputEnd.ANSWERED if is_together else InputEnd.SUPERSEDED
            assert at.ends == {"one": how, "two": InputEnd.ANSWERED}, moment
            assert "\n".join(engine.prompts).count("one") == 1, moment
            assert [each.text for each in at.answers if not each.is_cut_off] == ["ok"], moment
            assert at.told == [], moment


async def test_a_message_never_interrupts_its_own_turn() -> None:
    """However long a surface takes to show the message."""
    for slowness in range(0, 60, 3):
        surface = SlowSurface(slowness)
        async with scene(ScriptedEngine(), surfaces=[surface]) as at:
            assert await at.ask("one") == "ok"
            assert at.ends == {"one": InputEnd.ANSWERED}


@pytest.mark.parametrize("what", ["edit", "withdraw"])
async def test_a_message_can_be_changed_until_it_is_taken_and_not_after(what: str) -> None:
    answers = set()
    for moment in (moments := EveryMoment()):
        engine = SlowEngine()
        async with scene(engine, spec=slow_spec, surfaces=[SlowSurface(3)]) as at:
            sending = await accepted(at, "three")
            await pass_moments(moment)
            moments.is_over = bool(at.answers)
            is_done = await changed(at, what)
            answers.add(is_done)
            await sending
            await at.quiet()

            is_asked = any("three" in prompt for prompt in engine.prompts)
            assert is_asked != is_done, moment
            assert at.message("three").text == ("3" if is_done and what == "edit" else "three")
            how = InputEnd.WITHDRAWN if is_done and what == "withdraw" else InputEnd.ANSWERED
            assert at.ends == {"three": how}, moment
    assert answers == {True, False}


async def changed(at: Scene, what: str) -> bool:
    if what == "edit":
        return await at.chat.edit(InputId("three"), "3")
    return await at.chat.withdraw(InputId("three"))


async def test_a_surface_that_gives_up_while_it_withdraws_leaves_one_end() -> None:
    outcomes = set()
    for moment in (moments := EveryMoment(at_least=0)):
        engine = SlowEngine()
        async with scene(engine, spec=slow_spec, runs=False) as at:
            await at.send("three")
            withdrawing = asyncio.create_task(at.chat.withdraw(InputId("three")))
            await pass_moments(moment)
            moments.is_over = withdrawing.done()
            withdrawing.cancel()
            at.tasks.append(asyncio.create_task(at.talk.loop.run()))
            await at.quiet()

            (row,) = (row for row in at.rows if isinstance(row, Ended))
            outcomes.add(row.end)
            assert bool(engine.prompts) == (row.end is InputEnd.ANSWERED)
    assert InputEnd.WITHDRAWN in outcomes


async def test_a_surface_that_gives_up_while_it_sends_leaves_nothing_half_done() -> None:
    outcomes = set()
    for moment in (moments := EveryMoment(at_least=0)):
        engine = SlowEngine()
        async with scene(engine, spec=slow_spec) as at:
            sending = asyncio.create_task(at.send("hello"))
            await pass_moments(moment)
            moments.is_over = sending.done()
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
            await at.until(partial(has_settled, at))
            outcomes.add(len(at.log))

            if at.log:
                assert [each.text for each in at.log] == ["hello", "ok"]
                assert at.ends == {"hello": InputEnd.ANSWERED}
            assert await at.ask("hello") == "ok"
            assert len(at.answers) == 1
    assert 2 in outcomes


def has_settled(at: Scene) -> bool:
    return at.is_quiet and len(at.log) != 1
