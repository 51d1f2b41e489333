"""A fork is opened by a command or by the agent, is seen, and takes what is said from then on."""

from __future__ import annotations

from dataclasses import replace

from devtools.doubles.engine import CallsTool, Fails, Says, ScriptedEngine, Waits
from tests.conversation.scene import scripted
from tests.forks.fork_scene import ENTER, fork_scene

from ollim_bot.domain.cards import ButtonStyle, Color
from ollim_bot.domain.chat import TurnCost
from ollim_bot.domain.events import FailureKind
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.sessions import SessionChange
from ollim_bot.ports import OpenFork


async def test_a_topic_is_answered_in_a_branch_of_the_main_session() -> None:
    async with fork_scene(engine := scripted("Hello.", "Rome is best in May.")) as at:
        await at.scene.ask("hi")
        main = at.main
        await at.enter("a trip to Rome")
        fork = at.fork
        assert fork is not None
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


async def test_the_entry_card_names_the_topic_and_three_ways_out() -> None:
    async with fork_scene(scripted()) as at:
        await at.enter("taxes")
        card = at.entry().card
        assert card is not None
        assert (card.title, card.description) == ("Side conversation", "Topic: taxes")
        assert card.color is Color.PURPLE
        assert [(one.label, one.action, one.style) for one in card.buttons] == [
            ("Keep all of it", "fork_save", ButtonStyle.SUCCESS),
            ("Keep a summary", "fork_report", ButtonStyle.PRIMARY),
            ("Leave it", "fork_exit", ButtonStyle.DANGER),
        ]


async def test_a_card_without_a_topic_says_that_it_is_separate() -> None:
    async with fork_scene(scripted()) as at:
        await at.enter()
        card = at.entry().card
        assert card is not None
        assert "separate from the main conversation" in card.description


async def test_while_it_is_open_every_message_goes_to_it_and_that_is_seen() -> None:
    async with fork_scene(scripted("Hello.", "Rome.", "In May.", "Back.")) as at:
        await at.scene.ask("hi")
        await at.enter("Rome")
        fork = at.fork
        assert fork is not None
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
        assert at.fork is not None
        assert at.fork.topic == "Rome"
        assert at.fork.idle_limit.total_seconds() == 25 * 60
        assert [answer.text for answer in at.scene.answers] == ["Let us branch off.", "Rome, then."]


async def test_an_agent_that_asks_twice_opens_one() -> None:
    engine = ScriptedEngine().then(
        CallsTool(ENTER, {"topic": "a"}), CallsTool(ENTER, {"topic": "b"})
    )
    async with fork_scene(engine.answers("Here.")) as at:
        await at.scene.ask("branch off")
        assert at.fork is not None
        assert at.fork.topic == "a"
        assert at.titles == ["Side conversation"]


async def test_there_is_one_at_a_time_and_none_in_another() -> None:
    async with fork_scene(scripted("Rome.")) as at:
        await at.enter("Rome")
        answer = await at.scene.chat.command("web", "/fork Paris")
        assert answer.is_error
        assert answer.text.startswith("You are in a side conversation already.")
        assert at.fork is not None
        assert at.fork.topic == "Rome"


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
        card = at.entry().card
        assert card is not None
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
        assert at.titles[-1] == "Side conversation ended — nothing kept"


async def test_that_it_has_ended_is_said_in_the_main_conversation() -> None:
    async with fork_scene(ScriptedEngine()) as at:
        await at.enter("Rome")
        await at.press("Leave it")
        cards = [each for each in at.scene.log if each.card is not None]
        assert [(each.card.title, each.in_fork) for each in cards if each.card] == [
            ("Side conversation", True),
            ("Side conversation ended — nothing kept", False),
        ]
