"""Where discord.py looks for Discord."""

from __future__ import annotations

import pytest
from devtools.localdiscord.server import LocalDiscord
from discord.gateway import DiscordWebSocket
from discord.http import Route
from tests.discord.connection_scene import restored_addresses
from yarl import URL

from ollim_bot.errors import Unreachable
from ollim_bot.surfaces.discord.client import use_api_url


def addresses() -> tuple[str, URL]:
    return Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY


async def test_without_another_address_nothing_is_changed() -> None:
    before = addresses()
    await use_api_url(None)
    assert addresses() == before


async def test_another_address_is_asked_for_its_gateway() -> None:
    with restored_addresses():
        async with LocalDiscord() as local:
            await use_api_url(f"{local.api_url}/")
            assert addresses() == (local.api_url, URL(local.gateway_url))


async def test_an_address_that_does_not_answer_changes_nothing() -> None:
    before = addresses()
    async with LocalDiscord() as local:
        with pytest.raises(Unreachable, match="`DISCORD_API_URL`"):
            await use_api_url(f"{local.url}/elsewhere")
        await local.refuse_connections()
        with pytest.raises(Unreachable, match="`DISCORD_API_URL`"):
            await use_api_url(local.api_url)
    assert addresses() == before
