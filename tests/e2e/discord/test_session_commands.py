"""Slash commands that change the conversation: at rest, while an answer is written, in a fork."""

from __future__ import annotations

import pytest
from tests.e2e.discord.discord_scene import DiscordScene
from tests.e2e.discord.paused_answer import pause_answer
from tests.engine.scene import spoken

FORK = "side conversation · apart from the main one"
CLEARED = "Cleared"


@pytest.fixture
def scene(scene: DiscordScene) -> DiscordScene:
    """On a Discord without a low rate limit."""
    scene.discord.allowance(1000, 1.0, of=("send", "edit", "delete", "react"))
    return scene


async def enter_fork(scene: DiscordScene, topic: str, answer: str) -> None:
    scene.model.answers(answer)
    await done(scene, "fork", topic=topic)
    await scene.said(f"{answer}\n-# {FORK}")


async def done(scene: DiscordScene, name: str, /, **arguments: str) -> None:
    """Call a command whose result is in the conversation, with no answer to the caller."""
    assert (await scene.command(name, **arguments)).is_deleted


def heard(scene: DiscordScene) -> str:
    """All text of the last request to the model."""
    return "\n".join(spoken(scene.model.requests[-1]))


def is_closed(scene: DiscordScene, title: str) -> bool:
    """Whether all buttons of the last card with this title are disabled."""
    cards = [
        each for each in scene.discord.said if each.embeds and each.embeds[0]["title"] == title
    ]
    return all(button.get("disabled") for button in cards[-1].buttons)


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


@pytest.mark.real_engine
async def test_compact_tells_its_line_at_rest_after_an_answer_and_in_a_fork(
    scene: DiscordScene,
) -> None:
    await done(scene, "compact")
    await scene.said("-# There is nothing to compact yet.")
    answer = await scene.ask("hello", "Hi Ada.")
    await scene.until(lambda: _is_noted(scene, answer.id))
    assert (await scene.command("cost")).text.startswith("Today: 1 answer, $")
    await done(scene, "compact", instructions="keep the name Miso")
    await scene.said_with("-# 1 turn · 0m · ")
    assert any("keep the name Miso" in str(each.body) for each in scene.model.requests)

    paused = await pause_answer(scene, "One.", "Two.")
    waiting = scene.discord.call("compact", {})
    await scene.until(lambda: waiting.is_deferred)
    assert not waiting.is_deleted
    paused.resume()
    await scene.until(lambda: waiting.is_deleted)
    assert [row["event"] for row in scene.bot.rows("session_history.jsonl")].count("compacted") == 2

    await enter_fork(scene, "Rome", "In May.")
    await done(scene, "compact")
    await scene.said_with(f"tokens compacted\n-# {FORK}")
    assert not is_closed(scene, "Side conversation")


def _is_noted(scene: DiscordScene, ref: str) -> bool:
    """Whether the log has the id of a message on Discord."""
    return any(ref in each.refs for each in scene.bot.deliveries())
