"""What arrives on Discord later than a minute after it was written says so first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.discord.draft_scene import NOON, DraftScene, part_of

from ollim_bot.domain.cards import Card
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.ids import MessageId
from ollim_bot.errors import DeliveryUncertain

PING = ChatMessage(MessageId("7"), NOON, Author.BACKGROUND, "Call the dentist.", job="dentist")


@pytest.fixture
async def scene() -> AsyncIterator[DraftScene]:
    scene = DraftScene()
    yield scene
    await scene.close()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "-# ⏰ dentist\nCall the dentist."),
        (59, "-# ⏰ dentist\nCall the dentist."),
        (60, "-# late · written today 12:00\n-# ⏰ dentist\nCall the dentist."),
        (86400, "-# late · written yesterday 12:00\n-# ⏰ dentist\nCall the dentist."),
    ],
)
async def test_over_a_minute_late_is_said_in_the_first_line(
    scene: DraftScene, seconds: int, text: str
) -> None:
    await scene.clock.advance(seconds)
    await scene.deliver(PING)
    assert scene.channel.texts == [text]


async def test_a_card_says_it_at_its_foot(scene: DraftScene) -> None:
    await scene.clock.advance(3600)
    await scene.deliver(replace(PING, card=Card("Dentist"), job=""))
    [posted] = scene.channel.bot.values()
    assert posted.outgoing.card_footer == "late · written today 12:00"


async def test_only_the_first_part_says_it_and_a_full_one_keeps_its_words(
    scene: DraftScene,
) -> None:
    await scene.clock.advance(3600)
    long = replace(PING, text="word " * 700)
    await scene.deliver(long)
    parts = scene.surface.parts(long)
    assert len(parts) == 2
    assert all(len(text) <= 2000 for text in scene.channel.texts)
    assert scene.channel.texts[1] == parts[1].text


async def test_a_late_message_whose_answer_was_lost_is_found_by_its_words(
    scene: DraftScene,
) -> None:
    await scene.clock.advance(3600)
    part = part_of(PING)
    scene.channel.lost_answers["send"] = 1
    with pytest.raises(DeliveryUncertain):
        await scene.surface.deliver(part)
    [posted] = scene.channel.bot.values()
    assert posted.outgoing.text.startswith("-# late")
    posted.nonce = ""
    since = NOON - timedelta(hours=1)
    assert await scene.surface.find(part, since, ()) == posted.ref
