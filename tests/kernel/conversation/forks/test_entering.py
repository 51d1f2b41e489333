"""A fork is opened and seen, takes what it is told, and is asked to end when it is idle."""

from __future__ import annotations

from dataclasses import replace

import pytest
from devtools.doubles.engine import CallsTool, Fails, Says, ScriptedEngine, Waits
from tests.kernel.conversation.forks.fork_scene import ENTER, EXIT, ForkScene, fork_scene, reports
from tests.kernel.conversation.scene import card_of, scripted

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.values.cards import ButtonStyle, Color
from ollim_bot.kernel.values.chat import TurnCost
from ollim_bot.kernel.values.events import FailureKind, Noted
from ollim_bot.kernel.values.ports import OpenFork
from ollim_bot.kernel.values.sessions import SessionChange

pytestmark = pytest.mark.usefixtures("inline_executor")


async def test_a_topic_is_answered_in_a_branch_of_the_main_session() -> None:
    async with fork_scene(engine := scripted("Hello.", "Rome is best in May.")) as at:
        await at.scene.ask("hi")
        main = at.main
        await at.enter("a trip to Rome")
        fork = at.open
        assert engine.opened[-1].spec.branch_of == main
        assert engine.prompts[-1].startswith(
            "[fork-started] Topic: a trip to Rome\n[2026-02-24 Tue"
        )
        assert at.scene.answers[-1].text == "Rome is best in May."
        assert at.scene.answers[-1].in_fork
        assert at.main == main
        (event,) = at.happened(SessionChange.INTERACTIVE_FORK)
        assert (event.session_id, event.parent_session_id) == (fork.session, main)


async def test_without_a_topic_it_waits_for_the_owner() -> None:
    async with fork_scene(engine := scripted("I am here.")) as at:
        await at.enter()
        assert engine.prompts[-1].startswith("[fork-started] No topic yet.")
        said = "What is said here stays separate from the main conversation."
        assert card_of(at.entry()).description == said


async def test_the_entry_card_names_the_topic_and_three_ways_out() -> None:
    async with fork_scene(scripted()) as at:
        await at.enter("taxes")
        card = card_of(at.entry())
        assert (card.title, card.description) == ("Side conversation", "Topic: taxes")
        assert card.color is Color.PURPLE
        assert [(one.label, one.action, one.style) for one in card.buttons] == [
            ("Keep all of it", "fork_save", ButtonStyle.SUCCESS),
            ("Keep a summary", "fork_report", ButtonStyle.PRIMARY),
            ("Leave it", "fork_exit", ButtonStyle.DANGER),
        ]


async def test_while_it_is_open_every_message_goes_to_it_and_that_is_seen() -> None:
    async with fork_scene(scripted("Hello.", "Rome.", "In May.", "Back.")) as at:
        await at.scene.ask("hi")
        await at.enter("Rome")
        fork = at.open
        assert at.scene.chat.status.fork == OpenFork("Rome", MessageId(f"fork-{fork.id}"))
        assert at.scene.surface.statuses[-1].fork == at.scene.chat.status.fork
        assert await at.scene.ask("when?") == "In May."
        assert at.scene.answers[-1].session == fork.session
        assert at.scene.message("when?").in_fork
        await at.press("Leave it")
        assert at.scene.chat.status.fork is None
        assert await at.scene.ask("hello again") == "Back."
        assert at.scene.answers[-1].session == at.main
        assert not at.scene.message("hello again").in_fork


async def test_the_agent_opens_one_when_its_turn_has_ended() -> None:
    engine = ScriptedEngine()
    engine.then(CallsTool(ENTER, {"topic": "Rome", "idle_timeout": 25}), Says("Let us branch off."))
    async with fork_scene(engine.answers("Rome, then.")) as at:
        await at.scene.ask("plan Rome")
        assert at.open.topic == "Rome"
        assert at.open.idle_limit.total_seconds() == 25 * 60
        assert [answer.text for answer in at.scene.answers] == ["Let us branch off.", "Rome, then."]


async def test_an_agent_that_asks_twice_opens_one() -> None:
    engine = ScriptedEngine().then(
        CallsTool(ENTER, {"topic": "a"}), CallsTool(ENTER, {"topic": "b"})
    )
    async with fork_scene(engine.answers("Here.")) as at:
        await at.scene.ask("branch off")
        assert at.open.topic == "a"
        assert at.titles == ["Side conversation"]


async def test_there_is_one_at_a_time_and_none_in_another() -> None:
    async with fork_scene(scripted("Rome.")) as at:
        await at.enter("Rome")
        answer = await at.scene.chat.command("web", "/fork Paris")
        assert answer.is_error
        assert answer.text.startswith("You are in a side conversation already.")
        assert at.open.topic == "Rome"


async def test_it_thinks_as_forks_are_set_to_and_has_its_own_model() -> None:
    async with fork_scene(engine := scripted("Hello.", "Rome.")) as at:
        at.scene.stores.config.transact(lambda config: (replace(config, model_fork="haiku"), None))
        await at.scene.ask("hi")
        await at.enter("Rome")
        assert engine.opened[-1].spec.model == "haiku"
        assert engine.opened[-1].spec.thinking == "adaptive"


async def test_a_model_that_is_too_small_is_replaced_and_the_card_says_so() -> None:
    async with fork_scene(engine := scripted("Hello.", "Rome.")) as at:
        at.scene.stores.config.transact(lambda config: (replace(config, model_fork="haiku"), None))
        await at.scene.ask("hi")
        long = replace(at.scene.answers[-1], spent=TurnCost(context=190_000, window=1_000_000))
        at.scene.store.run(lambda tx: tx.messages.add(long))
        await at.enter("Rome")
        assert engine.opened[-1].spec.model == "sonnet"
        card = card_of(at.entry())
        assert "does not fit into haiku, so sonnet answers here" in card.description


async def test_a_fork_without_a_main_conversation_begins_blank() -> None:
    async with fork_scene(engine := scripted("Rome.")) as at:
        await at.enter("Rome")
        assert engine.opened[-1].spec.branch_of is None
        assert at.main is None


async def test_a_message_replaces_the_first_answer_while_it_is_written() -> None:
    engine = ScriptedEngine().then(Says("Rome is"), Waits()).answers("Paris it is.")
    async with fork_scene(engine) as at:
        answer = await at.scene.chat.command("web", "/fork Rome")
        assert not answer.is_error
        await at.scene.until(lambda: len(engine.prompts) == 1)
        assert await at.scene.ask("no, Paris") == "Paris it is."
        assert at.fork is not None


async def test_one_whose_first_turn_fails_can_still_be_left() -> None:
    engine = ScriptedEngine().then(Fails(FailureKind.OVERLOADED))
    async with fork_scene(engine) as at:
        await at.enter("Rome")
        assert "It failed" in at.scene.told[-1]
        await at.press("Leave it")
        assert at.fork is None
        assert [(card_of(each).title, each.in_fork) for each in at.cards][1:] == [
            ("Side conversation ended — nothing kept", False)
        ]


MINUTE = 60.0


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


READ_ONLY = "RECENT BACKGROUND UPDATES (read-only — main session will also see these)"

FOR_MAIN = "RECENT BACKGROUND UPDATES (mention key findings in your response)"


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


async def test_a_fork_is_shown_each_update_once_and_main_sees_it_afterwards() -> None:
    async with fork_scene(engine := scripted("Hello.", "Rome.", "May.", "June.", "Back.")) as at:
        await at.scene.ask("hi")
        at.scene.stores.leave_update("3 mails.", at.scene.clock.now())
        await at.enter("Rome")
        assert f"{READ_ONLY}\n- (just now) 3 mails." in engine.prompts[-1]
        await at.scene.ask("when?")
        assert "mails" not in engine.prompts[-1]
        at.scene.stores.leave_update("The build is green.", at.scene.clock.now())
        await at.scene.ask("are you sure?")
        assert "build is green" in engine.prompts[-1]
        assert "mails" not in engine.prompts[-1]
        assert at.scene.pending == ["3 mails.", "The build is green."]
        await at.press("Leave it")
        await at.scene.ask("hello again")
        assert FOR_MAIN in engine.prompts[-1]
        assert "3 mails." in engine.prompts[-1]
        assert "The build is green." in engine.prompts[-1]
        assert at.scene.pending == []


async def test_another_fork_is_shown_them_again() -> None:
    async with fork_scene(engine := scripted("Rome.", "Paris.")) as at:
        at.scene.stores.leave_update("3 mails.", at.scene.clock.now())
        await at.enter("Rome")
        await at.press("Leave it")
        await at.enter("Paris")
        assert "3 mails." in engine.prompts[-1]


async def test_only_main_says_that_it_catches_up() -> None:
    async with fork_scene(scripted("Rome.", "Hello.")) as at:
        at.scene.stores.leave_update("3 mails.", at.scene.clock.now())
        await at.enter("Rome")
        await at.press("Leave it")
        events = [event for shown in at.scene.surface.events.values() for event in shown]
        assert not [event for event in events if isinstance(event, Noted)]
        await at.scene.ask("hi")
        shown = at.scene.surface.events[at.scene.surface.starts[-1].turn]
        assert Noted("catching up on background activity...") in shown
        assert at.scene.answers[-1].footer == "catching up on background activity..."


async def test_what_a_restart_left_open_is_not_shown_again() -> None:
    engine = scripted("Rome.", "May.")
    async with fork_scene(engine) as at:
        at.scene.stores.leave_update("3 mails.", at.scene.clock.now())
        await at.enter("Rome")
        stores = at.scene.stores
    async with fork_scene(engine, stores=stores) as at:
        await at.scene.ask("when?")
        assert "mails" not in engine.prompts[-1]
        assert at.scene.answers[-1].in_fork
