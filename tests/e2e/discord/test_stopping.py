"""The bot ends when it is told to, whatever Discord does meanwhile."""

from __future__ import annotations

import asyncio

import pytest
from devtools.localdiscord.faults import AnswerHanging
from tests.e2e.discord.talk import Talk

# After that, whoever wants it to end kills it.
GRACE = 20.0


@pytest.mark.own_process
async def test_it_ends_in_time_while_discord_does_not_answer(talk: Talk) -> None:
    talk.model.answers("Hi Ada.")
    talk.discord.next_fail("* /channels/*", AnswerHanging(), times=None)
    talk.discord.say("hello")
    await talk.bot.answer(1)
    await talk.until(lambda: not talk.bot.open_inputs())
    async with asyncio.timeout(GRACE):
        assert await talk.bot.stop() == 0
    talk.discord.mend()
    await talk.bot.start()
    await talk.said_with("back. our conversation goes on.")
    await talk.until(lambda: not any("Thinking…" in text for text in talk.discord.texts))
    assert talk.discord.texts.count("Hi Ada.") == 1
    assert "Traceback" not in talk.bot.output.read_text()
