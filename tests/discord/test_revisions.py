"""A delivered message that has changed since is edited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.discord.draft_scene import DraftScene, outgoing_messages, texts_of

from ollim_bot.domain.cards import Button, Card
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.errors import DeliveryUncertain, Unreachable
from ollim_bot.store.deliveries import DeliveryState

LONG = "One sentence of some words, as they come. " * 150
CARD = Card("Done?", buttons=(Button("Yes", "agent", "1"), Button("No", "dismiss")))


@pytest.fixture
async def scene() -> AsyncIterator[DraftScene]:
    scene = DraftScene()
    yield scene
    await scene.close()


def with_used_buttons(message: ChatMessage) -> ChatMessage:
    used = tuple(each._replace(is_used=True) for each in CARD.buttons)
    return replace(message, card=CARD._replace(buttons=used))


async def test_a_message_that_was_changed_is_edited_once(scene: DraftScene) -> None:
    question = replace(scene.answer(None, ""), card=CARD)
    await scene.deliver(question)
    scene.post(question)
    await scene.settle()
    assert scene.requests() == ["send"], "it stands there already"
    changed = with_used_buttons(question)
    scene.post(changed)
    scene.post(changed)
    await scene.settle()
    scene.post(changed)
    await scene.settle()
    assert scene.requests() == ["send", "edit"]
    assert [each.outgoing for each in scene.channel.bot.values()] == outgoing_messages(changed)


@pytest.mark.parametrize("text", ["", LONG], ids=["a card", "several parts"])
async def test_a_change_counts_though_the_log_does_not_say_yet_where_it_stands(
    scene: DraftScene, text: str
) -> None:
    """The message has arrived, but the row with its id is not written yet."""
    question = replace(scene.answer(None, text), card=CARD)
    changed = with_used_buttons(question)
    last = texts_of(question)[-1] if text else ""
    scene.post(question)
    scene.start()
    while not scene.channel.bot or scene.channel.texts[-1] != last:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert scene.delivery(question.id).state is DeliveryState.OPEN
    scene.post(changed)
    await scene.settle()
    assert [each.outgoing for each in scene.channel.bot.values()] == outgoing_messages(changed)


async def test_a_change_that_a_crash_has_cut_off_is_made_in_the_next_run(scene: DraftScene) -> None:
    question = replace(scene.answer(None, ""), card=CARD)
    await scene.deliver(question)
    scene.channel.is_down = True
    scene.post(with_used_buttons(question))
    await scene.settle()
    scene.channel.is_down = False
    await scene.restart()
    await scene.settle()
    assert [each.outgoing for each in scene.channel.bot.values()] == outgoing_messages(
        with_used_buttons(question)
    )
    edits = len(scene.requests("edit"))
    await scene.settle()
    assert len(scene.requests("edit")) == edits


async def test_the_newest_change_wins(scene: DraftScene) -> None:
    message = scene.answer(None, "one")
    await scene.deliver(message)
    scene.channel.fail("edit", Unreachable("no"), DeliveryUncertain("lost"), Unreachable("no"))
    for text in ("two", "three", "four"):
        scene.post(replace(message, text=text))
        await scene.clock.advance(0.5)
    await scene.settle()
    assert scene.channel.texts == ["four"]
    scene.channel.may_answer.clear()
    scene.post(replace(message, text="five"))
    await scene.clock.advance(1)
    scene.post(message)
    scene.post(replace(message, text="four"))
    scene.channel.may_answer.set()
    await scene.settle()
    assert scene.channel.texts == ["four"]


async def test_a_change_of_a_message_that_is_gone_is_dropped(scene: DraftScene) -> None:
    message = scene.answer(None, "one")
    refs = await scene.deliver(message)
    del scene.channel.bot[refs[0]]
    scene.post(replace(message, text="two"))
    await scene.settle()
    assert scene.requests() == ["send", "edit"]


async def test_what_changes_on_its_way_is_changed_when_it_has_arrived(scene: DraftScene) -> None:
    question = replace(scene.answer(None, ""), card=CARD)
    scene.channel.may_answer.clear()
    scene.post(question)
    scene.start()
    await scene.clock.advance(1)
    assert scene.requests() == ["send"]
    scene.post(with_used_buttons(question))
    await scene.clock.advance(10)
    scene.channel.may_answer.set()
    await scene.settle()
    [posted] = scene.channel.bot.values()
    assert posted.outgoing == outgoing_messages(with_used_buttons(question))[0]


@pytest.mark.parametrize("text", [LONG + LONG, "short"])
async def test_a_change_with_another_number_of_parts_shows_what_it_can(
    scene: DraftScene, text: str
) -> None:
    message = scene.answer(None, LONG)
    refs = await scene.deliver(message)
    before = scene.channel.texts
    changed = replace(message, text=text)
    scene.post(changed)
    await scene.settle()
    now = texts_of(changed)[: len(refs)]
    assert scene.channel.texts == [*now, *before[len(now) :]]
