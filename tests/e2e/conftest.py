"""Each test gets its own home, a scripted model, and a bot that is killed afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from devtools.scripted_model import ScriptedModel
from tests.e2e.bot import Bot
from tests.e2e.in_process_bot import InProcessBot
from tests.e2e.killable_bot import KillableBot, serve_model

from ollim_bot.offline.server import MessagesServer


class Scene:
    def __init__(self, bot: Bot, model: ScriptedModel) -> None:
        self.bot = bot
        self.model = model


@asynccontextmanager
async def running(bot: Bot) -> AsyncIterator[Bot]:
    try:
        await bot.start()
        yield bot
    finally:
        await bot.kill()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """A bot in its own process, whose real engine asks the scripted model."""
    model = ScriptedModel()
    async with MessagesServer(model) as server, running(Bot(tmp_path, server.url)) as bot:
        yield Scene(bot, model)


@pytest.fixture
async def in_process(tmp_path: Path) -> AsyncIterator[Scene]:
    """A bot in the process of the test, with a doubled engine."""
    model = ScriptedModel()
    async with running(InProcessBot(tmp_path, model, {})) as bot:
        yield Scene(bot, model)


@pytest.fixture
async def killable(tmp_path: Path) -> AsyncIterator[Scene]:
    """A bot in its own process, with a doubled engine."""
    model = ScriptedModel()
    async with serve_model(model) as port, running(KillableBot(tmp_path, port, {})) as bot:
        yield Scene(bot, model)


@pytest.fixture
async def newcomer(tmp_path: Path) -> AsyncIterator[Bot]:
    """A bot without an account of any kind."""
    async with running(Bot(tmp_path, None)) as bot:
        yield bot
