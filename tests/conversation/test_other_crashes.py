"""Crashes at every step of what is more than one message: a newer one, and commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.conversation.recalling import WRITE, Death
from tests.conversation.scene import NOW, Scene
from tests.conversation.story import UPDATES, Life, Story

from ollim_bot.domain.cards import Button, ButtonPrompt, Card
from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.events import FailureKind
from ollim_bot.domain.inbox import Ended, InputEnd
from ollim_bot.domain.inputs import InputId
from ollim_bot.store.transaction import Transaction

pytestmark = pytest.mark.usefixtures("at_once")


def with_its_end(live: Life) -> Life:
    """A life that lasts until nothing waits."""

    async def whole(story: Story, scene: Scene) -> None:
        await live(story, scene)
        await scene.until(lambda: scene.is_quiet and not story.waits)

    return whole


async def after_a_crash(story: Story, live: Life) -> AsyncIterator[tuple[str, Story]]:
    """The story after a second life, for each death in the first; and one without a death."""
    life = with_its_end(live)
    for where, left in [*await story.deaths(life), ("no crash", story)]:
        await left.live(live=life)
        yield where, left


def ends_of(story: Story, name: str) -> list[InputEnd]:
    rows = (row for row in story.rows if isinstance(row, Ended))
    return [row.end for row in rows if InputId(name) in row.inputs]


async def two_messages(story: Story, scene: Scene) -> None:
    """The second comes in the middle of the answer to the first; each is sent until accepted."""
    story.engine.meanwhile = lambda: story.send(scene, "hello", "m2")
    await story.send(scene, WRITE, "m1")
    await scene.until(lambda: "m2" in story.done or scene.is_quiet)
    await story.send(scene, "hello", "m2")


async def test_a_crash_around_a_newer_message_loses_neither() -> None:
    story, how_m1_ended, crashes = Story(), set(), 0
    await story.begin(is_resumed=True)
    async for where, after in after_a_crash(story, two_messages):
        await after.go_on("m3")

        crashes += 1
        (end_of_m1,) = ends_of(after, "m1")
        how_m1_ended.add(end_of_m1)
        assert ends_of(after, "m2") == [InputEnd.ANSWERED], where
        assert after.texts.count("Hello.") == 3, where
        assert len(after.answers) == (end_of_m1 is InputEnd.ANSWERED), where
        assert after.engine.effects == ["written"], where
        assert [after.times_shown(update) for update in UPDATES] == [1, 1], where
        assert not after.waits, where
    assert crashes > 15
    assert how_m1_ended == {InputEnd.SUPERSEDED, InputEnd.ANSWERED}


async def one_command(story: Story, scene: Scene) -> None:
    if "/clear" not in story.done:
        story.done.add("/clear")
        command = asyncio.create_task(scene.chat.command("web", "/clear"))
        scene.tasks.append(command)
        await scene.until(command.done)


async def test_a_clear_that_a_crash_cut_off_is_done_after_it_once() -> None:
    story = Story()
    await story.begin(is_resumed=True)
    async for where, after in after_a_crash(story, one_command):
        is_cleared = after.stores.session.read() is None
        assert is_cleared == bool(after.rows), where
        assert [told.partition("\n")[0] for told in after.told] == ["Cleared"] * is_cleared, where
        assert not after.waits, where
        await after.go_on("m3")


async def greeted(_: Story, scene: Scene) -> None:
    await scene.talk.greeting.say()


async def test_a_crash_around_the_welcome_leaves_one_with_a_prompt_behind_its_button() -> None:
    async for where, after in after_a_crash(Story(), greeted):
        (welcome,) = (each for each in after.log if each.card)
        assert welcome.card is not None
        button, _ = welcome.card.buttons
        (behind,) = after.store.query(lambda tx: tx.inquiries.get()).waiting
        assert behind.key == button.data, where


QUESTION = ButtonPrompt("0a1b2c3d", "hello", NOW.timestamp())
ASK = Button("Ask", "agent", QUESTION.key)


def offer(tx: Transaction) -> None:
    card = Card("A question", buttons=(ASK,))
    tx.inquiries.change(lambda known: known.stored(QUESTION))
    tx.messages.add(ChatMessage(MessageId("card"), NOW, Author.ASSISTANT, card.text, card=card))


async def clicked(_: Story, scene: Scene) -> None:
    """Until the click is in the conversation."""
    if len(scene.log) == 1:
        await scene.chat.click("web", MessageId("card"), ASK.custom_id)


async def test_a_crash_around_a_click_asks_once() -> None:
    story, crashes = Story(), 0
    story.store.run(offer)
    async for where, after in after_a_crash(story, clicked):
        crashes += 1
        card, *rest = after.log
        assert card.card == Card("A question", buttons=(replace(ASK, is_used=True),)), where
        assert [each.text for each in rest] == [ASK.label, "Hello."], where
        assert after.store.query(lambda tx: tx.inquiries.get()).waiting == (), where
    assert crashes > 5


async def one_message(_: Story, scene: Scene) -> None:
    await scene.send(WRITE, "m1")


async def test_a_crash_around_a_turn_that_fails_says_so_once_or_answers() -> None:
    story, outcomes = Story(), set()
    await story.begin(is_resumed=True)
    story.engine.deaths.append(Death("the answer is recorded", FailureKind.OVERLOADED, 0))
    async for where, after in after_a_crash(story, one_message):
        (how,) = ends_of(after, "m1")
        outcomes.add(how)
        assert len(after.told) == (how is InputEnd.FAILED), where
        assert len(after.answers) == (how is InputEnd.ANSWERED), where
        assert after.engine.effects == ["written"], where
    assert outcomes == {InputEnd.FAILED, InputEnd.ANSWERED}
