"""Faults while an answer streams to Discord: the answer is complete, and there once."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from tests.e2e.discord.discord_scene import DiscordScene
from tests.e2e.discord.paused_answer import pause_answer
from tests.e2e.test_reminders import left, remind
from tests.kernel.engine.scene import spoken

from ollim_bot.offline.server import CallTool, ModelRequest, Reply, Say, Stall

# The prompt of a background run has these words.
TASK = "YOUR TASK:\n\nTime to drink."


CAUGHT_UP = "Here.\n-# catching up on background activity..."


def visible(scene: DiscordScene) -> list[str]:
    """All messages since the welcome."""
    return [each.text for each in scene.discord.messages[1:]]


async def until_idle(scene: DiscordScene) -> None:
    await scene.until(lambda: not any(each.reactions for each in scene.discord.messages))


@pytest.mark.real_engine
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_when_the_engine_dies_its_words_are_marked_and_the_answer_stands_below(
    scene: DiscordScene,
) -> None:
    listing = CallTool("Bash", {"command": "ollim-bot reminder list"})
    torn = Stall(Reply((Say("It is call"),)))
    scene.model.then(Reply((Say("I look."), listing)), torn)
    scene.discord.say("what is my cat called?")
    await scene.said_with("It is call")
    scene.model.answers("Miso.")
    (engine,) = scene.bot.engines()
    os.kill(engine, signal.SIGKILL)
    await scene.said("Miso.")
    await scene.ask("thanks", "Any time.")
    await until_idle(scene)
    assert visible(scene) == [
        "what is my cat called?",
        "I look.\n-# cut off here",
        "Miso.",
        "thanks",
        "Any time.",
    ]


@pytest.mark.parametrize("critical", [False, True])
async def test_a_ping_in_the_middle_stands_below_the_words_and_moves_nothing(
    scene: DiscordScene, critical: bool
) -> None:
    """A message that is not critical waits for the end of the turn."""
    words = {"message": "Drink water.", "critical": critical}
    scene.model.when(is_of_run, Reply((Say("Done."),)))
    scene.model.when(TASK, Reply((CallTool("mcp__discord__ping_user", words),)))
    paused = await pause_answer(scene, "One.", "Two.")
    remind(scene.bot, "water", 0, "Time to drink.")
    if critical:
        await scene.said_with("Drink water.")
    else:
        await scene.until(lambda: any(is_of_run(each) for each in scene.model.requests))
    paused.resume()
    await scene.said("One.\n\nTwo.")
    pinged = await scene.said_with("Drink water.")
    await scene.until(lambda: not left(scene.bot))
    await scene.ask("and now", "Here.")
    await until_idle(scene)
    assert visible(scene) == ["go on", "One.\n\nTwo.", pinged.text, "and now", CAUGHT_UP]


def is_of_run(request: ModelRequest) -> bool:
    return any(TASK in text for text in spoken(request))
