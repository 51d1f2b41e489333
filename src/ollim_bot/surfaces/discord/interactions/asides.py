"""Answers to commands and clicks that nobody sees but who asked."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import discord

from ollim_bot.errors import NotSent, OllimError, Unreachable, Unsure
from ollim_bot.surfaces.discord.wire.refusals import writing
from ollim_bot.surfaces.discord.words.split import split

Asked = discord.Interaction[discord.Client]
Fallback = Callable[[str], Awaitable[None]]

FAILED = "The bot could not do that. Its log says why."

_ALREADY_ACKNOWLEDGED = 40060

_logger = logging.getLogger(__name__)


async def acknowledged(asked: Asked, *, thinking: bool = False) -> bool:
    """Tell Discord that it has arrived, for which there are three seconds.

    False where Discord tells the person that the bot did not answer: then nothing may be done
    behind their back. Where that cannot be known, it counts as acknowledged.
    """
    try:
        async with writing():
            await asked.response.defer(ephemeral=thinking, thinking=thinking)
    except (NotSent, Unreachable) as error:
        if not _is_repeated(error):
            _logger.warning("An interaction came too late to be acknowledged: %s", error)
            return False
    except Unsure as error:
        _logger.info("An acknowledgement may be lost: %s", error)
    return True


async def refuse(asked: Asked, text: str) -> None:
    """In place of an acknowledgement."""
    try:
        async with writing():
            await asked.response.send_message(text, ephemeral=True)
    except OllimError as error:
        _logger.info("A refusal did not arrive: %s", error)


class Asides:
    """`fallback` takes what Discord does not, such as an answer that took over 15 minutes."""

    def __init__(self, fallback: Fallback) -> None:
        self._fallback = fallback

    async def answer(self, asked: Asked, text: str) -> None:
        """In the place where the bot is shown as thinking, which goes away without a text."""
        first, *others = split(text) or ("",)
        try:
            async with writing():
                if first:
                    await asked.edit_original_response(content=first)
                else:
                    await asked.delete_original_response()
        except OllimError as error:
            _logger.info("An answer found nobody waiting for it: %s", error)
            await self._give_back([first, *others])
        else:
            await self._add(asked, others)

    async def add(self, asked: Asked, text: str) -> None:
        """Below the message that was clicked."""
        await self._add(asked, split(text))

    async def _add(self, asked: Asked, pieces: Sequence[str]) -> None:
        for number, piece in enumerate(pieces):
            try:
                async with writing():
                    await asked.followup.send(piece, ephemeral=True)
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
