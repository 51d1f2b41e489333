"""Crashes at every step of what is more than one message: a newer one, and commands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest
from tests.conversation.fate import Crash, Fate
from tests.conversation.recalling import WRITE, Death
from tests.conversation.scene import NOW, Scene
from tests.conversation.story import UPDATES, Story

from ollim_bot.domain.cards import Button, ButtonPrompt, Card
from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.events import FailureKind
from ollim_bot.domain.inbox import Ended, InputEnd
from ollim_bot.domain.inputs import InputId
from ollim_bot.store.transaction import Transaction

pytestmark = pytest.mark.usefixtures("at_once")


Life = Callable[[Scene], Awaitable[None]]


async def through_a_crash(story: Story, at: int, live: Life) -> Fate:
    """A life that may end at this step, and one that goes on from there."""
    fate = Fate(at)
    for each in (fate, Fate()):
        with suppress(Crash):
            async with story.life(each) as scene:
                await live(scene)
                await scene.until(partial(is_over, scene, story))
    return fate


def is_over(scene: Scene, story: Story) -> bool:
    return scene.is_quiet and not story.waits


def ends_of(story: Story, name: str) -> list[InputEnd]:
    rows = (row for row in story.rows if isinstance(row, Ended))
    return [row.end for row in rows if InputId(name) in row.inputs]


def two_messages(story: Story) -> Life:
    """The second comes in the middle of the answer to the first; each is sent until accepted."""
    sent: set[str] = set()

    async def send(scene: Scene, name: str, text: str) -> None:
        if name not in sent:
            await scene.send(text, name)
            sent.add(name)

    async def live(scene: Scene) -> None:
        story.engine.meanwhile = lambda: send(scene, "m2", "hello")
        await send(scene, "m1", WRITE)
        await scene.until(lambda: "m2" in sent or scene.is_quiet)
        await send(scene, "m2", "hello")

    return live


async def test_a_crash_around_a_newer_message_loses_neither() -> None:
    at, fate = 0, Fate()
    how_m1_ended = set()
    while not at or fate.is_dead:
        at += 1
        story = Story()
        await story.begin(is_resumed=True)
        fate = await through_a_crash(story, at, two_messages(story))
        await story.go_on("m3")

        where = f"crash at step {at}: {fate.steps[-1]}"
        (end_of_m1,) = ends_of(story, "m1")
        how_m1_ended.add(end_of_m1)
        assert ends_of(story, "m2") == [InputEnd.ANSWERED], where
        assert story.texts.count("Hello.") == 3, where
        assert len(story.answers) == (end_of_m1 is InputEnd.ANSWERED), where
        assert story.engine.effects == ["written"], where
        assert [story.times_shown(update) for update in UPDATES] == [1, 1], where
        assert not story.waits, where
    assert at > 30
    assert how_m1_ended == {InputEnd.SUPERSEDED, InputEnd.ANSWERED}


def one_command() -> Life:
    called: list[str] = []

    async def live(scene: Scene) -> None:
        if not called:
            called.append("/clear")
            command = asyncio.create_task(scene.chat.command("web", "/clear"))
            scene.tasks.append(command)
            await scene.until(command.done)

    return live


async def test_a_clear_that_a_crash_cut_off_is_done_after_it_once() -> None:
    at, fate = 0, Fate()
    while not at or fate.is_dead:
        at += 1
        story = Story()
        await story.begin(is_resumed=True)
        fate = await through_a_crash(story, at, one_command())

        where = f"crash at step {at}: {fate.steps[-1]}"
        is_cleared = story.stores.session.read() is None
        assert is_cleared == bool(story.rows), where
        assert [told.partition("\n")[0] for told in story.told] == ["Cleared"] * is_cleared, where
        assert not story.waits, where
        await story.go_on("m3")


async def greeted(scene: Scene) -> None:
    await scene.talk.greeting.say()


async def test_a_crash_around_the_welcome_leaves_one_with_a_prompt_behind_its_button() -> None:
    at, fate = 0, Fate()
    while not at or fate.is_dead:
        at += 1
        story = Story()
        fate = await through_a_crash(story, at, greeted)

        where = f"crash at step {at}: {fate.steps[-1]}"
        (welcome,) = (each for each in story.log if each.card)
        assert welcome.card is not None
        button, _ = welcome.card.buttons
        (behind,) = story.store.query(lambda tx: tx.inquiries.get()).waiting
        assert behind.key == button.data, where


QUESTION = ButtonPrompt("0a1b2c3d", "hello", NOW.timestamp())
ASK = Button("Ask", "agent", QUESTION.key)


def offer(tx: Transaction) -> None:
    card = Card("A question", buttons=(ASK,))
    tx.inquiries.change(lambda known: known.stored(QUESTION))
    tx.messages.add(ChatMessage(MessageId("card"), NOW, Author.ASSISTANT, card.text, card=card))


async def clicked(scene: Scene) -> None:
    """Until the click is in the conversation."""
    if len(scene.log) == 1:
        await scene.chat.click("web", MessageId("card"), ASK.custom_id)


async def test_a_crash_around_a_click_asks_once() -> None:
    at, fate = 0, Fate()
    while not at or fate.is_dead:
        at += 1
        story = Story()
        story.store.run(offer)
        fate = await through_a_crash(story, at, clicked)

        where = f"crash at step {at}: {fate.steps[-1]}"
        card, *rest = story.log
        assert card.card == Card("A question", buttons=(replace(ASK, is_used=True),)), where
        assert [each.text for each in rest] == [ASK.label, "Hello."], where
        assert story.store.query(lambda tx: tx.inquiries.get()).waiting == (), where
    assert at > 10


async def one_message(scene: Scene) -> None:
    await scene.send(WRITE, "m1")


async def test_a_crash_around_a_turn_that_fails_says_so_once_or_answers() -> None:
    at, fate, outcomes = 0, Fate(), set()
    while not at or fate.is_dead:
        at += 1
        story = Story()
        await story.begin(is_resumed=True)
        story.engine.deaths.append(Death("the answer is recorded", FailureKind.OVERLOADED, 0))
        fate = await through_a_crash(story, at, one_message)

        where = f"crash at step {at}: {fate.steps[-1]}"
        (how,) = ends_of(story, "m1")
        outcomes.add(how)
        assert len(story.told) == (how is InputEnd.FAILED), where
        assert len(story.answers) == (how is InputEnd.ANSWERED), where
        assert story.engine.effects == ["written"], where
    assert outcomes == {InputEnd.FAILED, InputEnd.ANSWERED}
