"""A fork without messages is asked to end, and then ends with a summary by itself."""

from __future__ import annotations

import pytest
from devtools.doubles.engine import Says, ScriptedEngine, Waits
from tests.conversation.scene import scripted
from tests.forks.fork_scene import EXIT, ForkScene, fork_scene, reports

MINUTE = 60.0

pytestmark = pytest.mark.usefixtures("inline_executor")


async def passes(at: ForkScene, minutes: float) -> None:
    await at.scene.clock.advance(minutes * MINUTE)
    await at.scene.quiet()


async def answered(at: ForkScene, engine: ScriptedEngine, number: int) -> None:
    """Wait until the turn of this number is over and the fork, if it is open, is idle from now."""
    await at.scene.until(lambda: len(engine.prompts) == number)
    await at.scene.quiet()
    await at.scene.until(lambda: at.fork is None or at.fork.last_activity == at.scene.clock.now())


async def test_after_ten_minutes_the_owner_sees_a_note_and_the_agent_is_asked() -> None:
    async with fork_scene(engine := scripted("Rome.", "Still here.")) as at:
        await at.enter("Rome")
        await passes(at, 9.9)
        assert len(engine.prompts) == 1
        await passes(at, 0.1)
        await at.scene.until(lambda: len(engine.prompts) == 2)
        await at.scene.quiet()
        assert engine.prompts[-1].startswith("[fork-timeout] ")
        note = "Nothing was said here for 10 minutes."
        assert [text for text in at.scene.told if text.startswith(note)]
        assert at.fork is not None


async def test_after_the_same_time_again_it_ends_as_a_report() -> None:
    async with fork_scene(engine := scripted("Rome in May.", "Still here.")) as at:
        await at.enter("Rome")
        await passes(at, 10)
        await answered(at, engine, 2)
        await passes(at, 9.9)
        assert at.fork is not None
        await passes(at, 0.2)
        await at.scene.until(lambda: at.fork is None)
        assert at.titles[-1] == "Side conversation ended — summary kept"
        (summary,) = at.scene.pending
        assert summary.startswith("A side conversation about “Rome” ended.")
        assert len(engine.prompts) == 2


async def test_what_the_owner_says_begins_the_time_anew() -> None:
    async with fork_scene(
        engine := scripted("Rome.", "May.", "Asked.", "Yes.", "Asked again.")
    ) as at:
        await at.enter("Rome")
        await passes(at, 9)
        await at.scene.ask("when?")
        await answered(at, engine, 2)
        await passes(at, 9)
        assert len(engine.prompts) == 2
        await passes(at, 1)
        await answered(at, engine, 3)
        await passes(at, 9)
        await at.scene.ask("are you there?")
        await answered(at, engine, 4)
        await passes(at, 9.9)
        assert len(engine.prompts) == 4
        await passes(at, 0.2)
        await at.scene.until(lambda: len(engine.prompts) == 5)
        assert engine.prompts[-1].startswith("[fork-timeout] ")
        assert at.fork is not None


async def test_the_agent_may_end_it_when_it_is_asked() -> None:
    engine = scripted("Rome.").then(reports("Rome in May."), Says("Reported."))
    async with fork_scene(engine) as at:
        await at.enter("Rome")
        await passes(at, 10)
        await at.scene.until(lambda: at.fork is None)
        assert at.scene.pending == ["Rome in May."]


async def test_an_answer_that_takes_long_is_not_idleness() -> None:
    engine = scripted("Rome.").then(Waits()).then(EXIT)
    async with fork_scene(engine) as at:
        await at.enter("Rome")
        await at.scene.send("think hard")
        await at.scene.until(lambda: len(engine.prompts) == 2)
        await at.scene.clock.advance(30 * MINUTE)
        await at.scene.chat.interrupt()
        await answered(at, engine, 2)
        await passes(at, 9)
        assert len(engine.prompts) == 2
        await passes(at, 1.1)
        await at.scene.until(lambda: at.fork is None)


async def test_a_clock_that_was_set_back_does_not_keep_it_open() -> None:
    async with fork_scene(engine := scripted("Rome.", "Still here.")) as at:
        await at.enter("Rome")
        at.scene.clock.jump(-24 * 60 * MINUTE)
        await at.scene.ask("hello?")
        await answered(at, engine, 2)
        await passes(at, 10)
        await at.scene.until(lambda: len(engine.prompts) == 3)
        assert engine.prompts[-1].startswith("[fork-timeout] ")


async def test_a_clock_that_was_set_back_while_nobody_spoke_does_not_either() -> None:
    async with fork_scene(engine := scripted("Rome.", "Still here.")) as at:
        await at.enter("Rome")
        at.scene.clock.jump(-24 * 60 * MINUTE)
        await passes(at, 10)
        await passes(at, 10)
        await at.scene.until(lambda: len(engine.prompts) == 2)


async def test_it_goes_on_to_be_idle_over_a_restart() -> None:
    engine = ScriptedEngine().answers("Rome.", "Still here.")
    async with fork_scene(engine) as at:
        await at.enter("Rome")
        await passes(at, 6)
        stores, clock = at.scene.stores, at.scene.clock
    async with fork_scene(engine, stores=stores, clock=clock) as at:
        assert at.fork is not None
        await passes(at, 3.9)
        assert len(engine.prompts) == 1
        await passes(at, 0.2)
        await at.scene.until(lambda: len(engine.prompts) == 2)
        assert engine.opened[-1].spec.resume == at.fork.session


async def test_one_that_was_left_open_overnight_is_asked_first() -> None:
    engine = ScriptedEngine().answers("Rome.", "Still here.")
    async with fork_scene(engine) as at:
        await at.enter("Rome")
        stores, clock = at.scene.stores, at.scene.clock
    await clock.advance(600 * MINUTE)
    async with fork_scene(engine, stores=stores, clock=clock) as at:
        await passes(at, 0)
        await at.scene.until(lambda: len(engine.prompts) == 2)
        assert at.fork is not None
