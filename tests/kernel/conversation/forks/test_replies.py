"""A reply to what a fork or a background run had said goes on from there."""

from __future__ import annotations

from datetime import timedelta

import pytest
from devtools.doubles.engine import ScriptedEngine
from tests.kernel.conversation.forks.fork_scene import fork_scene
from tests.kernel.conversation.scene import Scene, card_of, scripted

from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.conversation import fork_commands as forks
from ollim_bot.kernel.values.cards import Button, ButtonPrompt, Card
from ollim_bot.kernel.values.chat import Author, ChatMessage, numbered_id
from ollim_bot.kernel.values.events import Noted
from ollim_bot.kernel.values.forks import ForkMessage
from ollim_bot.kernel.values.sessions import SessionChange

RUN = SessionId("run-1")
DAY = timedelta(days=1)


async def pinged(
    at: Scene, session: SessionId = RUN, ago: timedelta = timedelta(hours=2), number: int = 7
) -> MessageId:
    """A background run had said something."""
    sent = at.clock.now() - ago
    message = ChatMessage(
        numbered_id(sent, number), sent, Author.BACKGROUND, "3 mails need you.", session=session
    )
    record = ForkMessage(int(message.id), session, SessionId("main-0"), sent.timestamp())
    at.store.run(lambda tx: tx.messages.add(message))
    at.store.run(lambda tx: tx.fork_messages.change(lambda known: (*known, record)))
    return message.id


def remembering(*answers: str) -> ScriptedEngine:
    """An engine that still has the session of the run."""
    engine = scripted(*answers)
    engine.known.add(RUN)
    return engine


def notes(at: Scene) -> list[str]:
    events = (event for shown in at.surface.events.values() for event in shown)
    return [event.text for event in events if isinstance(event, Noted)]


async def test_it_opens_a_fork_from_the_session_that_had_said_it() -> None:
    engine = remembering("Hello.", "The bank wrote.")
    async with fork_scene(engine) as at:
        await at.scene.ask("hi")
        main = at.main
        ping = await pinged(at.scene)
        assert await at.scene.ask("which ones?", reply_to=ping) == "The bank wrote."
        assert engine.opened[-1].spec.branch_of == RUN
        assert engine.prompts[-1].startswith("[fork-started] [stale-fork: 2h ago] ")
        assert engine.prompts[-1].endswith("> 3 mails need you.\n\nwhich ones?")
        assert (at.open.resumed_from, at.main) == (RUN, main)
        (event,) = at.happened(SessionChange.INTERACTIVE_FORK)
        assert event.parent_session_id == RUN
        assert at.titles == ["Side conversation"]


async def test_such_a_fork_does_not_offer_to_become_the_main_conversation() -> None:
    engine = remembering("Hello.", "The bank wrote.")
    async with fork_scene(engine) as at:
        await at.scene.ask("hi")
        await at.scene.ask("which ones?", reply_to=await pinged(at.scene))
        card = card_of(at.cards[0])
        assert [button.label for button in card.buttons] == ["Keep a summary", "Leave it"]


async def test_an_expired_one_is_answered_in_main_with_the_quote_and_that_is_said() -> None:
    engine = remembering("Hello.", "I see.")
    async with fork_scene(engine) as at:
        await at.scene.ask("hi")
        ping = await pinged(at.scene, ago=8 * DAY)
        assert await at.scene.ask("which ones?", reply_to=ping) == "I see."
        assert at.fork is None
        assert notes(at.scene) == ["this session has expired — starting fresh with quoted context"]
        assert "> 3 mails need you.\n\nwhich ones?" in engine.prompts[-1]
        assert at.scene.answers[-1].session == at.main


@pytest.mark.parametrize("ago", [38 * DAY, 400 * DAY])
async def test_one_that_nobody_remembers_is_only_quoted(ago: timedelta) -> None:
    engine = remembering("I see.")
    async with fork_scene(engine) as at:
        await at.scene.ask("which ones?", reply_to=await pinged(at.scene, ago=ago))
        assert (at.fork, notes(at.scene)) == (None, [])
        assert "> 3 mails need you." in engine.prompts[-1]


async def test_one_whose_session_is_gone_is_only_quoted() -> None:
    async with fork_scene(engine := scripted("I see.")) as at:
        await at.scene.ask("which ones?", reply_to=await pinged(at.scene))
        assert at.fork is None
        assert "> 3 mails need you." in engine.prompts[-1]


async def test_one_of_a_fork_that_was_saved_is_an_ordinary_message() -> None:
    async with fork_scene(scripted("Rome.", "And on.")) as at:
        await at.enter("Rome")
        said = at.scene.answers[-1].id
        await at.press("Keep all of it")
        await at.scene.ask("why Rome?", reply_to=said)
        assert at.fork is None
        assert at.scene.answers[-1].session == at.main


async def test_one_of_a_fork_that_ended_goes_on_from_it() -> None:
    async with fork_scene(engine := scripted("Hello.", "Rome.", "For the food.")) as at:
        await at.scene.ask("hi")
        await at.enter("Rome")
        fork = at.fork
        said = at.scene.answers[-1].id
        await at.press("Leave it")
        assert await at.scene.ask("why Rome?", reply_to=said) == "For the food."
        assert fork is not None
        assert engine.opened[-1].spec.branch_of == fork.session
        assert at.open.session != fork.session


async def test_in_a_fork_a_reply_becomes_context_of_it_and_that_is_said() -> None:
    engine = remembering("Rome.", "Noted.")
    async with fork_scene(engine) as at:
        ping = await pinged(at.scene)
        await at.enter("Rome")
        fork = at.fork
        await at.scene.ask("which ones?", reply_to=ping)
        assert fork is not None
        assert at.open.id == fork.id
        assert notes(at.scene) == [forks.TAKEN_HERE]
        assert "> 3 mails need you." in engine.prompts[-1]


async def test_a_reply_to_the_fork_one_is_in_needs_no_word() -> None:
    async with fork_scene(scripted("Rome.", "For the food.")) as at:
        await at.enter("Rome")
        await at.scene.ask("why?", reply_to=at.scene.answers[-1].id)
        assert notes(at.scene) == []


async def test_two_replies_to_one_message_branch_twice() -> None:
    engine = remembering("The bank.", "The gym.")
    async with fork_scene(engine) as at:
        ping = await pinged(at.scene)
        await at.scene.ask("which ones?", reply_to=ping)
        first = at.fork
        await at.press("Leave it")
        await at.scene.ask("which others?", reply_to=ping)
        second = at.fork
        assert first is not None
        assert second is not None
        assert len({first.session, second.session, RUN}) == 3
        branches = [opened.spec.branch_of for opened in engine.opened if opened.spec.branch_of]
        assert branches == [RUN, RUN]


async def test_a_button_on_a_message_of_a_run_opens_a_fork_from_it() -> None:
    engine = remembering("Hello.", "Drafted.")
    async with fork_scene(engine) as at:
        await at.scene.ask("hi")
        sent = at.scene.clock.now() - timedelta(hours=2)
        inquiry = ButtonPrompt("a1b2c3d4", "draft the replies", sent.timestamp())
        at.scene.stores.inquiries.transact(lambda known: (known.stored(inquiry), None))
        card = Card("3 mails", buttons=(Button("Draft replies", "agent", "a1b2c3d4"),))
        message = ChatMessage(
            numbered_id(sent, 7), sent, Author.BACKGROUND, card.text, session=RUN, card=card
        )
        record = ForkMessage(int(message.id), RUN, None, sent.timestamp())
        at.scene.store.run(lambda tx: tx.messages.add(message))
        at.scene.store.run(lambda tx: tx.fork_messages.change(lambda known: (*known, record)))
        await at.press("Draft replies", message)
        assert at.scene.answers[-1].text == "Drafted."
        assert engine.opened[-1].spec.branch_of == RUN
        assert engine.prompts[-1].endswith("\n\n[button] draft the replies")
        assert at.fork is not None


async def test_a_reply_does_not_join_the_messages_that_wait_with_it() -> None:
    engine = remembering("Both.", "The bank.")
    async with fork_scene(engine, runs=False) as at:
        ping = await pinged(at.scene)
        stores = at.scene.stores
        await at.scene.send("hello")
        await at.scene.send("which ones?", reply_to=ping)
    async with fork_scene(engine, stores=stores) as at:
        await at.scene.quiet()
        assert len(engine.prompts) == 2
        assert engine.prompts[0].endswith("\n\nhello")
        assert engine.prompts[1].startswith("[fork-started] ")


async def test_a_fork_from_a_session_that_has_gone_meanwhile_answers_and_tells() -> None:
    engine = remembering("I try.")
    async with fork_scene(engine, runs=False) as at:
        ping = await pinged(at.scene)
        await at.scene.send("which ones?", reply_to=ping)
        stores = at.scene.stores
    engine.known.discard(RUN)
    async with fork_scene(engine, stores=stores) as at:
        await at.scene.quiet()
        assert at.scene.answers[-1].text == "I try."
        assert at.fork is None


async def test_a_fork_whose_record_is_gone_says_so_and_begins_anew() -> None:
    engine = remembering("The bank wrote.", "Hello.")
    async with fork_scene(engine) as at:
        ping = await pinged(at.scene)
        await at.scene.ask("which ones?", reply_to=ping)
        stores = at.scene.stores
    engine.known.clear()
    async with fork_scene(engine, stores=stores) as at:
        await at.scene.ask("and now?")
        (said,) = [each for each in at.scene.log if each.text == forks.LOST]
        assert said.in_fork
        assert at.fork is not None
        assert not engine.prompts[-1].startswith("[fork-started]")


async def test_a_fork_whose_own_record_is_gone_branches_again_and_says_so() -> None:
    engine = remembering("The bank wrote.", "Hello.")
    async with fork_scene(engine) as at:
        ping = await pinged(at.scene)
        await at.scene.ask("which ones?", reply_to=ping)
        stores = at.scene.stores
    engine.known.intersection_update({RUN})
    async with fork_scene(engine, stores=stores) as at:
        await at.scene.ask("and now?")
        assert forks.LOST in at.scene.told
        assert engine.opened[-1].spec.branch_of == RUN
