"""Each test gets a home of its own, a model to script, and a bot that is gone afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.e2e.bot import Bot
from tests.e2e.inline import InlineBot
from tests.e2e.killable import KillableBot, asked_at

from ollim_bot.offline.scripted import ScriptedModel
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
    """A bot in a process of its own, whose real engine asks the scripted model."""
    model = ScriptedModel()
    async with MessagesServer(model) as server, running(Bot(tmp_path, server.url)) as bot:
        yield Scene(bot, model)


@pytest.fixture
async def inline(tmp_path: Path) -> AsyncIterator[Scene]:
    """The same in the process of the test, with the engine doubled."""
    model = ScriptedModel()
    async with running(InlineBot(tmp_path, model, {})) as bot:
        yield Scene(bot, model)


@pytest.fixture
async def killable(tmp_path: Path) -> AsyncIterator[Scene]:
    """In a process of its own, with the engine doubled."""
    model = ScriptedModel()
    async with asked_at(model) as port, running(KillableBot(tmp_path, port, {})) as bot:
        yield Scene(bot, model)


@pytest.fixture
async def newcomer(tmp_path: Path) -> AsyncIterator[Bot]:
    """A bot without an account of any kind."""
    async with running(Bot(tmp_path, None)) as bot:
        yield bot
