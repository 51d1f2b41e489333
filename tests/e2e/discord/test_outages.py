"""Discord goes away and comes back: what was written meanwhile is answered, each message once."""

from __future__ import annotations

import re

import pytest
from devtools.localdiscord.server import LocalDiscord
from tests.e2e.discord.discord_scene import DiscordScene
from tests.kernel.engine.scene import spoken

MANY = 20
LOST = "Discord cannot be reached now."


@pytest.fixture
def scene(scene: DiscordScene) -> DiscordScene:
    """On a Discord without a low rate limit: with it, each of the many answers takes a second."""
    scene.discord.allowance(1000, 1.0, of=("send", "edit", "delete", "react"))
    return scene


def heard(scene: DiscordScene) -> list[str]:
    """The numbered messages in the requests to the model, in order."""
    said = "\n".join(spoken(scene.model.requests[-1])) if scene.model.requests else ""
    return re.findall(r"^message \d+\b.*$", said, re.MULTILINE)


def written(discord: LocalDiscord) -> list[str]:
    """Write many messages, edit some and delete others; returns the remaining ones."""
    ids = [discord.say(f"message {number}") for number in range(MANY)]
    for message_id in ids[::7]:
        discord.edit(message_id, f"{discord.message(message_id).text}, corrected")
    for message_id in ids[::10]:
        discord.delete(message_id)
    return [discord.message(each).text for each in ids if not discord.message(each).is_deleted]


async def all_heard_once(scene: DiscordScene, left: list[str]) -> None:
    await scene.until(lambda: heard(scene)[-1:] == left[-1:] and not scene.bot.open_inputs())
    await scene.ask("and now", "Here again.")
    assert heard(scene) == left


async def test_all_that_was_written_during_an_outage_is_answered_once_in_order(
    scene: DiscordScene,
) -> None:
    await scene.ask("hello", "Hi Ada.")
    await scene.discord.refuse_connections()
    left = written(scene.discord)
    await scene.until(lambda: LOST in scene.bot.output.read_text())
    await scene.discord.accept_again()
    await all_heard_once(scene, left)
    assert scene.discord.gateway.resumed == 0
    assert scene.discord.command_puts == 1


async def test_all_that_was_written_while_the_bot_was_off_is_answered_once_in_order(
    scene: DiscordScene,
) -> None:
    await scene.ask("hello", "Hi Ada.")
    await scene.bot.stop()
    left = written(scene.discord)
    await scene.bot.start()
    await all_heard_once(scene, left)


async def test_a_session_that_discord_has_forgotten_is_begun_anew_without_a_greeting(
    scene: DiscordScene,
) -> None:
    await scene.ask("hello", "Hi Ada.")
    before = len(scene.discord.said)
    scene.discord.drop_gateway(4000, resumable=False)
    left = written(scene.discord)
    await all_heard_once(scene, left)
    assert scene.discord.gateway.resumed == 0
    assert scene.discord.gateway.identified == 2
    assert scene.discord.command_puts == 1
    answers = {"ok", "Here again."}
    await scene.until(lambda: {each.text for each in scene.discord.said[before:]} <= answers)
