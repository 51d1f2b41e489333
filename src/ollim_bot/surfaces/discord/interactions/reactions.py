"""Reactions of the owner's: an answer to a question whether something may be done."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ollim_bot.chat import Reception
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.errors import OllimError
from ollim_bot.surfaces.discord.channel import NAME
from ollim_bot.surfaces.discord.interactions.asides import Say

_ACTION = "approve"
# The word with which the data of the button ends that says the same.
_ANSWERS: Mapping[str, str] = {"✅": "once", "🔓": "always", "❌": "no"}
# An emoji may come with a mark that asks for its coloured form.
_VARIATIONS = "\ufe0e\ufe0f"

_logger = logging.getLogger(__name__)


class Reactions:
    """`say` tells the owner what came of an answer, where that is worth a word."""

    def __init__(self, reception: Reception, say: Say) -> None:
        self._reception = reception
        self._say = say

    async def added(self, ref: str, emoji: str) -> None:
        """The button that says the same is clicked; where there is none, nothing happens."""
        word = _ANSWERS.get(emoji.strip(_VARIATIONS))
        if word is None:
            return
        try:
            message = await self._reception.by_ref(NAME, ref)
            button = _saying(word, message)
            if message is None or button is None:
                return
            answer = await self._reception.click(NAME, message.id, button.custom_id)
        except OllimError as error:
            _logger.warning("A reaction could not be taken: %s", error)
            await self._say(str(error))
        else:
            if answer.text:
                await self._say(answer.text)


def _saying(word: str, message: ChatMessage | None) -> Button | None:
    buttons = message.card.buttons if message and message.card else ()
    for each in buttons:
        if each.action == _ACTION and not each.is_used and each.data.endswith(f":{word}"):
            return each
    return None
