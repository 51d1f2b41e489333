"""A local Discord, and what talks to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import aiohttp
import pytest
from devtools.localdiscord.server import LocalDiscord
from tests.discord_server.client import Listener, listener
from tests.discord_server.wire import Wire, bot_session

from ollim_bot.testing.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    """Of those servers that a test makes with it."""
    return ManualClock(datetime(2026, 2, 24, 10, 15, tzinfo=UTC))


@pytest.fixture
async def server() -> AsyncIterator[LocalDiscord]:
    async with LocalDiscord() as server:
        yield server


@pytest.fixture
async def timed(clock: ManualClock) -> AsyncIterator[LocalDiscord]:
    """Time passes there by `clock` only."""
    async with LocalDiscord(now=clock.now, monotonic=clock.monotonic) as server:
        yield server


@pytest.fixture
async def client(server: LocalDiscord) -> AsyncIterator[Listener]:
    async with listener(server) as client:
        yield client


@pytest.fixture
async def http(server: LocalDiscord) -> AsyncIterator[aiohttp.ClientSession]:
    async with bot_session(server) as session:
        yield session


@pytest.fixture
def wire(server: LocalDiscord, http: aiohttp.ClientSession) -> Wire:
    return Wire(server, http)


@pytest.fixture
async def timed_wire(timed: LocalDiscord) -> AsyncIterator[Wire]:
    async with bot_session(timed) as session:
        yield Wire(timed, session)
