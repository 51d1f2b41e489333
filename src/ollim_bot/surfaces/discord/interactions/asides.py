"""Answers to commands and clicks that only the person who asked can see."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import discord

from ollim_bot.errors import NotSent, OllimError, Unreachable, Unsure
from ollim_bot.surfaces.discord.wire.refusals import writing
from ollim_bot.surfaces.discord.words.split import split

# Sends the owner a sentence that is kept in no log.
Say = Callable[[str], Awaitable[None]]

FAILED = "The bot could not do that. Its log says why."

_ALREADY_ACKNOWLEDGED = 40060

_logger = logging.getLogger(__name__)


async def acknowledged(interaction: discord.Interaction, *, thinking: bool = False) -> bool:
    """Tell Discord that it has arrived, for which there are three seconds.

    False where Discord tells the person that the bot did not answer: then nothing may be done
    behind their back. Where that cannot be known, it counts as acknowledged.
    """
    try:
        async with writing():
            await interaction.response.defer(ephemeral=thinking, thinking=thinking)
    except (NotSent, Unreachable) as error:
        if not _is_repeated(error):
            _logger.warning("An interaction came too late to be acknowledged: %s", error)
            return False
    except Unsure as error:
        _logger.info("An acknowledgement may be lost: %s", error)
    return True


class Asides:
    """`fallback` takes what Discord does not, such as an answer that took over 15 minutes."""

    def __init__(self, fallback: Say) -> None:
        self._fallback = fallback

    async def answer(self, interaction: discord.Interaction, text: str) -> None:
        """In the place where the bot is shown as thinking; without a text, that goes away."""
        first, *others = split(text) or ("",)
        try:
            async with writing():
                if first:
                    await interaction.edit_original_response(content=first)
                else:
                    await interaction.delete_original_response()
        except OllimError as error:
            _logger.info("An answer found nobody waiting for it: %s", error)
            await self._give_back([first, *others])
        else:
            await self._add(interaction, others)

    async def add(self, interaction: discord.Interaction, text: str) -> None:
        """Below the message that was clicked."""
        await self._add(interaction, split(text))

    async def _add(self, interaction: discord.Interaction, pieces: Sequence[str]) -> None:
        for number, piece in enumerate(pieces):
            try:
                async with writing():
                    await interaction.followup.send(piece, ephemeral=True)
            except OllimError as error:
                _logger.info("An answer did not arrive: %s", error)
                await self._give_back(pieces[number:])
                return

    async def _give_back(self, pieces: Sequence[str]) -> None:
        text = "\n".join(pieces)
        if text:
            await self._fallback(text)


def _is_repeated(error: OllimError) -> bool:
    """Whether an earlier try has arrived after all, whose answer was an error."""
    cause = error.__cause__
    return isinstance(cause, discord.HTTPException) and cause.code == _ALREADY_ACKNOWLEDGED
