"""The bot stops when it is told to, whatever Discord does."""

from __future__ import annotations

import asyncio

import pytest
from devtools.localdiscord.faults import AnswerHanging
from tests.e2e.discord.discord_scene import DiscordScene

# In seconds; a service manager kills a process that takes longer.
GRACE = 20.0


@pytest.mark.own_process
async def test_it_ends_in_time_while_discord_does_not_answer(scene: DiscordScene) -> None:
    scene.model.answers("Hi Ada.")
    scene.discord.next_fail("* /channels/*", AnswerHanging(), times=None)
    scene.discord.say("hello")
    await scene.bot.answer(1)
    await scene.until(lambda: not scene.bot.open_inputs())
    async with asyncio.timeout(GRACE):
        assert await scene.bot.stop() == 0
    scene.discord.mend()
    await scene.bot.start()
    await scene.said_with("back. our conversation goes on.")
    await scene.until(lambda: not any("Thinking…" in text for text in scene.discord.texts))
    assert scene.discord.texts.count("Hi Ada.") == 1
    assert "Traceback" not in scene.bot.output.read_text()
