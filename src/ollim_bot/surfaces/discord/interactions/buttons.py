"""What a click of the owner's on a button does."""

from __future__ import annotations

import logging
from typing import Any, cast

import discord

from ollim_bot.chat import Reception
from ollim_bot.errors import OllimError
from ollim_bot.surfaces.discord.channel import NAME
from ollim_bot.surfaces.discord.interactions.asides import (
    FAILED,
    Asides,
    Say,
    acknowledged,
)

UNKNOWN = "This button is from a message that I no longer know."

_logger = logging.getLogger(__name__)


class ButtonInteractions:
    def __init__(self, reception: Reception, fallback: Say) -> None:
        self._reception = reception
        self._asides = Asides(fallback)

    async def clicked(self, interaction: discord.Interaction) -> None:
        if await acknowledged(interaction):
            await self._asides.add(interaction, await self._answer(interaction))

    async def _answer(self, interaction: discord.Interaction) -> str:
        ref = "" if interaction.message is None else str(interaction.message.id)
        custom_id = cast("dict[str, Any]", interaction.data or {}).get("custom_id", "")
        try:
            message = await self._reception.by_ref(NAME, ref)
            if message is None:
                return UNKNOWN
            return (await self._reception.click(NAME, message.id, custom_id)).text
        except OllimError as error:
            return str(error)
        except Exception:  # whoever has clicked hears of it, whatever it is
            _logger.exception("A click on %s failed", custom_id)
            return FAILED
