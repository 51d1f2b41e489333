"""Where Discord is: usually where discord.py looks for it, else at an address of the owner's."""

from __future__ import annotations

import asyncio

import aiohttp
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route

from ollim_bot.errors import Unreachable

_LONGEST = 20
_OK = 200


async def point_at(api_url: str | None) -> None:
    """Let discord.py use another REST base, and the gateway that this one names.

    Nothing is changed if there is no other address. Raises `Unreachable` if it does not answer, and
    may then be asked again.
    """
    if api_url is None:
        return
    base = api_url.rstrip("/")
    DiscordWebSocket.DEFAULT_GATEWAY = await _gateway(base)
    Route.BASE = base


async def _gateway(base: str) -> yarl.URL:
    try:
        async with (
            asyncio.timeout(_LONGEST),
            aiohttp.ClientSession() as session,
            session.get(f"{base}/gateway") as answer,
        ):
            said = await answer.json(content_type=None) if answer.status == _OK else None
        url = yarl.URL(said["url"]) if isinstance(said, dict) else yarl.URL()
    except (aiohttp.ClientError, OSError, ValueError, KeyError, TypeError) as error:
        raise Unreachable(_no_answer(base)) from error
    if url.scheme not in ("ws", "wss"):
        raise Unreachable(_no_answer(base))
    return url


def _no_answer(base: str) -> str:
    return f"{base} (`DISCORD_API_URL`) does not answer as Discord does. Is it right?"
