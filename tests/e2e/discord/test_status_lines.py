"""Discord shows that a turn runs, what it does, and when it ends."""

from __future__ import annotations

import re

import pytest
from tests.e2e.discord.discord_scene import DiscordScene
from tests.e2e.discord.paused_answer import script_paused_answer

from ollim_bot.offline.server import Fail, Hang, Reply, Say


def draft(scene: DiscordScene) -> str:
    """The text of the newest message of the bot."""
    return scene.discord.texts[-1]


async def until_idle(scene: DiscordScene) -> None:
    """Wait until there is no reaction, no status line and no typing indicator."""
    await scene.until(lambda: not any(each.reactions for each in scene.discord.messages))
    await scene.until(lambda: not any("Thinking…" in text for text in scene.discord.texts))
    assert not scene.discord.requests[-1].path.endswith("/typing")


@pytest.mark.real_engine
async def test_a_failure_takes_the_place_of_the_status_line_and_what_lasts_is_told_there(
    scene: DiscordScene,
) -> None:
    busy = Fail(529, "overloaded_error", "busy", retry_after=2)
    scene.model.then(busy, Reply((Say("Back."),)))
    scene.discord.say("are you there?")
    answer = await scene.said("Back.")
    assert any(re.search(r"^-# Retrying \(1 of \d+\)…", text) for text in answer.texts)

    scene.model.then(Fail(403, "permission_error", "no"))
    scene.discord.say("hello")
    note = await scene.said_with("refused the login")
    await until_idle(scene)
    assert scene.discord.said[2:] == [note]
    scene.model.answers("Now it works.")
    (retry,) = note.buttons
    assert retry["label"] == "Retry"
    await scene.press(note, "Retry")
    await scene.said("Now it works.")
    await scene.until(lambda: note.buttons[0]["disabled"])
    assert [each.text for each in scene.discord.messages].count("hello") == 1

    scene.model.when(lambda request: "summary" in request.last_user_text.lower(), Hang())
    scene.discord.slash("compact")
    await scene.until(lambda: draft(scene).startswith("-# Compacting…"))


async def test_a_turn_begun_on_the_page_is_quoted_and_streamed(scene: DiscordScene) -> None:
    paused = await script_paused_answer(scene, "One.", "Two.")
    await scene.bot.say("count\nplease")
    await scene.said_with("One.")
    paused.resume()
    await scene.said("One.\n\nTwo.")
    assert scene.discord.texts[1:] == ["> count\n> please\n-# from the page", "One.\n\nTwo."]
