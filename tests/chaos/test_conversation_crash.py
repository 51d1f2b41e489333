"""P1, P2: the bot is killed at random moments of its turns, and each message is answered once."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.bot import Bot

from ollim_bot.offline.messages import CallTool, ModelRequest, Reply, Say
from ollim_bot.offline.server import MessagesServer
from ollim_bot.offline.side_requests import side_answer

pytestmark = pytest.mark.chaos

LONGEST_TURN = 1.6


class Secretary:
    """Sets a reminder for each task that it is given, says so, and goes on after a restart."""

    def reply(self, request: ModelRequest) -> Reply:
        aside = side_answer(request)
        if aside is not None:
            return aside
        words = request.last_user_text
        if request.tool_results or "restarted" in words:
            return Reply((Say("It is done, as you asked."),), pace=0.01, chunk=4)
        task = words.rpartition("\n")[2]
        command = f"ollim-bot reminder add -m '{task}' --in 60m"
        return Reply((Say("Let me see."), CallTool("Bash", {"command": command})), pace=0.005)


async def test_a_message_is_answered_once_whenever_the_bot_is_killed(
    tmp_path: Path, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(pytestconfig.option.chaos_seed)
    ends = time.monotonic() + float(pytestconfig.option.chaos_seconds)
    tasks = acted = 0
    async with MessagesServer(Secretary()) as server:
        bot = Bot(tmp_path, server.url)
        try:
            await bot.start()
            while time.monotonic() < ends or not tasks:
                task = f"task number {tasks}"
                message = await bot.say(task)
                await asyncio.sleep(chance.uniform(0, LONGEST_TURN))
                await bot.kill()
                await bot.start()
                await bot.until(lambda: not bot.open_inputs())
                assert await whole_answers(bot, message) == 1
                times = reminders_of(bot, task)
                assert times <= 1
                tasks, acted = tasks + 1, acted + times
        finally:
            await bot.kill()
    # Fewer reminders than tasks are right: killed between the note of a call and its end, nobody
    # can know whether it was made, and it is not repeated.
    record_property("chaos", f"{tasks} kills, all answered once; {acted} reminders, none twice")


async def whole_answers(bot: Bot, message: str) -> int:
    shown = await bot.messages()
    after = shown[[one["id"] for one in shown].index(message) + 1 :]
    return sum(one["author"] == "assistant" and not one["is_cut_off"] for one in after)


def reminders_of(bot: Bot, task: str) -> int:
    files = (bot.data / "reminders").iterdir()
    return sum(file.read_text().rstrip().endswith(f"\n{task}") for file in files)
