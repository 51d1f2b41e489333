"""Translates errors of discord.py and aiohttp into ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import discord

from ollim_bot.domain.text import shortened
from ollim_bot.errors import DeliveryFailed, DeliveryUncertain, OllimError, Unreachable, WrongInput
from ollim_bot.surfaces.discord.rendering import HistoryHidden

LONGEST_CALL = 55.0

DISCORD_ERRORS = (discord.DiscordException, aiohttp.ClientError, OSError, RuntimeError)

GONE = "That message is gone."
NO_TOKEN = (
    "Discord refused the token. Run `ollim-bot setup discord` with a new one and start the bot "
    "again."
)
NO_INTENTS = (
    "Discord does not show direct messages to this application. Allow it on the page of the "
    "application, under Bot, and start the bot again."
)
NO_OWNER = (
    "The Discord application belongs to a team. Run `ollim-bot setup discord`, which asks who you "
    "are, and start the bot again."
)
OUT_OF_REACH = "Discord cannot be reached now."
BUSY = "Discord asks to wait."
_LOST = "Discord did not say whether it has it."
_FORBIDDEN = "Discord does not let the bot write to the owner. Allow direct messages from it."
_REFUSED = "Discord refused it: {reason}"
_NO_SUCH_MESSAGE = 10008


class NotAdmitted(WrongInput):
    """Discord refuses the bot until the owner changes a setting."""


def not_in_team(owner_id: int) -> NotAdmitted:
    return NotAdmitted(
        f"`DISCORD_OWNER_ID` is {owner_id}, who is not in the team of the Discord application. "
        "Put the user id of a member there and start the bot again."
    )


@asynccontextmanager
async def reading(longest: float = LONGEST_CALL) -> AsyncIterator[None]:
    """Raise every error and timeout within it as `Unreachable` or `HistoryHidden`."""
    try:
        async with asyncio.timeout(longest):
            yield
    except DISCORD_ERRORS as error:
        found = translated_error(error)
        kind = HistoryHidden if isinstance(found, DeliveryFailed) else Unreachable
        raise kind(str(found)) from error


@asynccontextmanager
async def writing(longest: float = LONGEST_CALL) -> AsyncIterator[None]:
    """Raise errors and timeouts as `DeliveryFailed`, `Unreachable` or `DeliveryUncertain`."""
    try:
        async with asyncio.timeout(longest):
            yield
    except DISCORD_ERRORS as error:
        raise translated_error(error) from error


def translated_error(error: BaseException) -> OllimError:
    """Translate the error of a call that should change something.

    Raises the error itself if neither Discord nor the network can have caused it.
    """
    match error:
        case discord.HTTPException():
            return _answered(error)
        case discord.RateLimited():
            return Unreachable(BUSY)
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return Unreachable(OUT_OF_REACH)
        case aiohttp.ClientError() | OSError():
            return DeliveryUncertain(_LOST)
        case RuntimeError() if "closed" in str(error):
            return Unreachable(OUT_OF_REACH)
    raise error


def _answered(error: discord.HTTPException) -> OllimError:
    match error.status:
        case 401:
            return Unreachable(OUT_OF_REACH)
        case 429:
            return Unreachable(BUSY)
        case status if status >= 500:
            return DeliveryUncertain(_LOST)
        case 403:
            return DeliveryFailed(_FORBIDDEN)
        case 404 if error.code == _NO_SUCH_MESSAGE:
            return DeliveryFailed(GONE)
        case 413:
            return DeliveryFailed("Discord does not take a file of that size.")
    # For an invalid field the first line gives no details.
    lines = [line.strip() for line in error.text.splitlines() if line.strip()]
    last = lines[-1] if lines else f"{error.status}, without a reason"
    return DeliveryFailed(_REFUSED.format(reason=shortened(last, 200)))
