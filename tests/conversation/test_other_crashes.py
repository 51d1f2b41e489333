"""Crashes at every step of a newer message, a command, a welcome, a click and a failed turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.conversation.restarted_bot import UPDATES, OwnerActions, RestartedBot
from tests.conversation.scene import NOW, Scene
from tests.conversation.transcript_engine import WRITE, EngineCrash

from ollim_bot.domain.cards import Button, ButtonPrompt, Card
from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.events import FailureKind
from ollim_bot.domain.inbox import Ended, InputEnd
from ollim_bot.domain.inputs import InputId
from ollim_bot.store.transaction import Transaction

pytestmark = pytest.mark.usefixtures("inline_executor")


def until_all_is_done(actions: OwnerActions) -> OwnerActions:
    """The same actions, and then waiting until no input is open."""

    async def whole(bot: RestartedBot, scene: Scene) -> None:
        await actions(bot, scene)
        await scene.until(lambda: scene.is_quiet and not bot.waits)

    return whole


async def after_a_crash(
    bot: RestartedBot, actions: OwnerActions
) -> AsyncIterator[tuple[str, RestartedBot]]:
    """The bot after a second run, for each crash in the first run and for none."""
    whole = until_all_is_done(actions)
    for where, left in [*await bot.crashes(whole), ("no crash", bot)]:
        await left.run(actions=whole)
        yield where, left


def ends_of(bot: RestartedBot, name: str) -> list[InputEnd]:
    rows = (row for row in bot.rows if isinstance(row, Ended))
    return [row.end for row in rows if InputId(name) in row.inputs]


async def two_messages(bot: RestartedBot, scene: Scene) -> None:
    """The second comes in the middle of the answer to the first; each is sent until accepted."""
    bot.engine.meanwhile = lambda: bot.send(scene, "hello", "m2")
    await bot.send(scene, WRITE, "m1")
    await scene.until(lambda: "m2" in bot.done or scene.is_quiet)
    await bot.send(scene, "hello", "m2")


async def test_a_crash_around_a_newer_message_loses_neither() -> None:
    bot, how_m1_ended, crashes = RestartedBot(), set(), 0
    await bot.prepare(is_resumed=True)
    async for where, after in after_a_crash(bot, two_messages):
        await after.send_another("m3")

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


async def one_command(bot: RestartedBot, scene: Scene) -> None:
    if "/clear" not in bot.done:
        bot.done.add("/clear")
        command = asyncio.create_task(scene.chat.command("web", "/clear"))
        scene.tasks.append(command)
        await scene.until(command.done)


async def test_a_clear_that_a_crash_cut_off_is_done_after_it_once() -> None:
    bot = RestartedBot()
    await bot.prepare(is_resumed=True)
    async for where, after in after_a_crash(bot, one_command):
        is_cleared = after.stores.session.read() is None
        assert is_cleared == bool(after.rows), where
        assert [told.partition("\n")[0] for told in after.told] == ["Cleared"] * is_cleared, where
        assert not after.waits, where
        await after.send_another("m3")


async def greeted(_: RestartedBot, scene: Scene) -> None:
    await scene.talk.greeting.say()


async def test_a_crash_around_the_welcome_leaves_one_with_a_prompt_behind_its_button() -> None:
    async for where, after in after_a_crash(RestartedBot(), greeted):
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


async def clicked(_: RestartedBot, scene: Scene) -> None:
    """Click, unless an earlier run has accepted the click."""
    if len(scene.log) == 1:
        await scene.chat.click("web", MessageId("card"), ASK.custom_id)


async def test_a_crash_around_a_click_asks_once() -> None:
    bot, crashes = RestartedBot(), 0
    bot.store.run(offer)
    async for where, after in after_a_crash(bot, clicked):
        crashes += 1
        card, *rest = after.log
        assert card.card == Card("A question", buttons=(replace(ASK, is_used=True),)), where
        assert [each.text for each in rest] == [ASK.label, "Hello."], where
        assert after.store.query(lambda tx: tx.inquiries.get()).waiting == (), where
    assert crashes > 5


async def one_message(_: RestartedBot, scene: Scene) -> None:
    await scene.send(WRITE, "m1")


async def test_a_crash_around_a_turn_that_fails_says_so_once_or_answers() -> None:
    bot, outcomes = RestartedBot(), set()
    await bot.prepare(is_resumed=True)
    bot.engine.crashes.append(EngineCrash("the answer is recorded", FailureKind.OVERLOADED, 0))
    async for where, after in after_a_crash(bot, one_message):
        (how,) = ends_of(after, "m1")
        outcomes.add(how)
        assert len(after.told) == (how is InputEnd.FAILED), where
        assert len(after.answers) == (how is InputEnd.ANSWERED), where
        assert after.engine.effects == ["written"], where
    assert outcomes == {InputEnd.FAILED, InputEnd.ANSWERED}
