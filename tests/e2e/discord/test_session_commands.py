"""Slash commands that change the conversation: at rest, while an answer is written, in a fork."""

from __future__ import annotations

import pytest
from tests.e2e.discord.discord_scene import DiscordScene
from tests.kernel.engine.scene import spoken

CLEARED = "Cleared"


@pytest.fixture
def scene(scene: DiscordScene) -> DiscordScene:
    """On a Discord without a low rate limit."""
    scene.discord.allowance(1000, 1.0, of=("send", "edit", "delete", "react"))
    return scene


async def done(scene: DiscordScene, name: str, /, **arguments: str) -> None:
    """Call a command whose result is in the conversation, with no answer to the caller."""
    assert (await scene.command(name, **arguments)).is_deleted


def heard(scene: DiscordScene) -> str:
    """All text of the last request to the model."""
    return "\n".join(spoken(scene.model.requests[-1]))


def notes(scene: DiscordScene, text: str) -> int:
    return scene.discord.texts.count(text)


async def test_a_restart_greets_once_and_a_clear_before_it_can_be_undone(
    scene: DiscordScene,
) -> None:
    await scene.ask("my cat is Miso", "Noted.")
    first = scene.bot.session()
    await done(scene, "clear")
    card = await scene.card(CLEARED)
    answer = await scene.command("restart")
    assert answer.text == "Restarting. The conversation goes on where it is."
    await scene.said("-# back after a restart.")
    await scene.bot.reconnect()
    await scene.press(card, "Undo")
    await scene.until(lambda: scene.bot.session() == first)
    await scene.card("Undone")
    await scene.ask("which cat?", "Miso.")
    assert "my cat is Miso" in heard(scene)
    assert notes(scene, "-# back after a restart.") == 1
    assert scene.discord.command_puts == 1
