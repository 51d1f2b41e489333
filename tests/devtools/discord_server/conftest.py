"""A local Discord, and clients of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import aiohttp
import pytest
from devtools.doubles.clock import ManualClock
from devtools.localdiscord.server import LocalDiscord
from tests.devtools.discord_server.rest_client import RestClient, bot_session


@pytest.fixture
def clock() -> ManualClock:
    """The clock of `timed_server`, and of servers that a test makes with it."""
    return ManualClock(datetime(2026, 2, 24, 10, 15, tzinfo=UTC))


@pytest.fixture
async def server() -> AsyncIterator[LocalDiscord]:
    async with LocalDiscord() as server:
        yield server


@pytest.fixture
async def timed_server(clock: ManualClock) -> AsyncIterator[LocalDiscord]:
    """A server whose time passes only by `clock`."""
    async with LocalDiscord(now=clock.now, monotonic=clock.monotonic) as server:
        yield server


@pytest.fixture
async def http(server: LocalDiscord) -> AsyncIterator[aiohttp.ClientSession]:
    async with bot_session(server) as session:
        yield session


@pytest.fixture
def rest(server: LocalDiscord, http: aiohttp.ClientSession) -> RestClient:
    return RestClient(server, http)


@pytest.fixture
async def timed_rest(timed_server: LocalDiscord) -> AsyncIterator[RestClient]:
    async with bot_session(timed_server) as session:
        yield RestClient(timed_server, session)
