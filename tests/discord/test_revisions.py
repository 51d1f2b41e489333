"""What has been delivered and is different now is brought up to date."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.discord.draft_scene import Scene, letters_of, nonce_of, texts_of

from ollim_bot.domain.cards import Button, Card
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.errors import DeliveryUncertain, Unreachable

LONG = "One sentence of some words, as they come. " * 150
CARD = Card("Done?", buttons=(Button("Yes", "agent", "1"), Button("No", "dismiss")))


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


def delivered(message: ChatMessage, *refs: str) -> ChatMessage:
    return replace(message, refs={"discord": " ".join(refs)})


def with_used_buttons(message: ChatMessage) -> ChatMessage:
    used = tuple(replace(each, is_used=True) for each in CARD.buttons)
    return replace(message, card=replace(CARD, buttons=used))


async def test_a_message_that_was_changed_is_edited_once(scene: Scene) -> None:
    question = replace(scene.answer(None, ""), card=CARD)
    refs = await scene.deliver(question)
    scene.courier.changed(delivered(question, *refs))
    await scene.settle()
    assert scene.requests() == ["send"], "it stands there already"
    changed = delivered(with_used_buttons(question), *refs)
    scene.courier.changed(changed)
    scene.courier.changed(changed)
    await scene.settle()
    scene.courier.changed(changed)
    await scene.settle()
    assert scene.requests() == ["send", "edit"]
    assert [each.outgoing for each in scene.channel.bot.values()] == letters_of(changed)


@pytest.mark.parametrize("text", ["", LONG], ids=["a card", "several parts"])
async def test_a_change_counts_though_the_log_does_not_say_yet_where_it_stands(
    scene: Scene, text: str
) -> None:
    """It has arrived, and only the row that says so is not written yet."""
    question = replace(scene.answer(None, text), card=CARD)
    await scene.deliver(question)
    changed = delivered(with_used_buttons(question))
    scene.courier.changed(changed)
    await scene.settle()
    assert [each.outgoing for each in scene.channel.bot.values()] == letters_of(changed)


async def test_a_message_of_an_earlier_life_is_edited_once(scene: Scene) -> None:
    question = replace(scene.answer(None, ""), card=CARD)
    refs = [await scene.channel.send(letters_of(question)[0], "0" * 24)]
    for _ in range(3):
        scene.courier.changed(delivered(question, *refs))
        await scene.settle()
    assert scene.requests() == ["send", "edit"]


async def test_the_newest_change_wins(scene: Scene) -> None:
    message = scene.answer(None, "one")
    refs = await scene.deliver(message)
    scene.channel.fail("edit", Unreachable("no"), DeliveryUncertain("lost"), Unreachable("no"))
    for text in ("two", "three", "four"):
        scene.courier.changed(delivered(replace(message, text=text), *refs))
        await scene.clock.advance(0.5)
    await scene.settle()
    assert scene.channel.texts == ["four"]
    scene.channel.may_answer.clear()
    scene.courier.changed(delivered(replace(message, text="five"), *refs))
    await scene.clock.advance(1)
    scene.courier.changed(delivered(message, *refs))
    scene.courier.changed(delivered(replace(message, text="four"), *refs))
    scene.channel.may_answer.set()
    await scene.settle()
    assert scene.channel.texts == ["four"]


async def test_a_change_of_a_message_that_is_gone_is_dropped(scene: Scene) -> None:
    message = scene.answer(None, "one")
    refs = await scene.deliver(message)
    del scene.channel.bot[refs[0]]
    scene.courier.changed(delivered(replace(message, text="two"), *refs))
    await scene.settle()
    assert scene.requests() == ["send", "edit"]


async def test_what_changes_on_its_way_is_changed_when_it_has_arrived(scene: Scene) -> None:
    question = replace(scene.answer(None, ""), card=CARD)
    [part] = scene.courier.parts(question)
    scene.courier.changed(question)
    scene.courier.changed(with_used_buttons(question))
    await scene.clock.advance(10)
    assert scene.requests() == []
    await scene.courier.deliver(part, nonce_of(question, 0))
    await scene.settle()
    [posted] = scene.channel.bot.values()
    assert posted.outgoing == letters_of(with_used_buttons(question))[0]


@pytest.mark.parametrize("text", [LONG + LONG, "short"])
async def test_a_change_with_another_number_of_parts_shows_what_it_can(
    scene: Scene, text: str
) -> None:
    message = scene.answer(None, LONG)
    refs = await scene.deliver(message)
    before = scene.channel.texts
    changed = replace(message, text=text)
    scene.courier.changed(delivered(changed, *refs))
    await scene.settle()
    now = texts_of(changed)[: len(refs)]
    assert scene.channel.texts == [*now, *before[len(now) :]]
