"""The page about Discord has every sentence about what can go wrong there, as it is said."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import discord
import pytest
from tests.conversation.scene import NOW

from ollim_bot.conversation.delivery_failures import sentence_about
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.ids import MessageId
from ollim_bot.store.deliveries import Delivery, DeliveryState
from ollim_bot.store.messages import LoggedMessage
from ollim_bot.surfaces.discord import errors, inbound, interactions

TOLD = ChatMessage(MessageId("1"), NOW, Author.BACKGROUND, "…")
DOCS = (Path(__file__).parents[2] / "docs" / "discord.md").read_text()


def ended(state: DeliveryState) -> Delivery:
    logged = LoggedMessage(TOLD, 1, 1)
    return Delivery("discord", logged, state, (), (), 1, None, "", 0, "the reason.")


def answered(status: int) -> str:
    """Our error text for this HTTP status of Discord."""
    response = cast("Any", SimpleNamespace(status=status, reason=""))
    return str(errors.translated_error(discord.HTTPException(response, "no")))


SENTENCES = (
    errors.NO_TOKEN,
    errors.NO_INTENTS,
    errors.NO_OWNER,
    str(errors.not_in_team(80351110224678912)),
    errors.OUT_OF_REACH,
    errors.BUSY,
    answered(403),
    answered(413),
    sentence_about(ended(DeliveryState.REFUSED)),
    sentence_about(ended(DeliveryState.UNKNOWN)),
    inbound.not_kept_yet("…"),
    inbound.NOTHING_TO_READ,
    interactions.UNKNOWN,
)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_every_refusal_is_explained(sentence: str) -> None:
    assert f"| {sentence} |" in DOCS


def test_the_limits_are_the_real_ones() -> None:
    megabytes = inbound.MOST_BYTES // 1024**2
    assert inbound.MOST_FILES == 10
    assert f"Up to ten with a message, {megabytes} MB each." in DOCS
