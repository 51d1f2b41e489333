"""Discord shows that a turn runs, what it does, and when it ends."""

from __future__ import annotations

import re

import pytest
from tests.e2e.discord.discord_scene import DiscordScene
from tests.e2e.discord.paused_answer import pause_answer, script_paused_answer

from ollim_bot.offline.messages import CallTool, Fail, Hang, Reply, Say, Stall, Think

EYES = "👀"


def draft(scene: DiscordScene) -> str:
    """The text of the newest message of the bot."""
    return scene.discord.texts[-1]


async def until_idle(scene: DiscordScene) -> None:
    """Wait until there is no reaction, no status line and no typing indicator."""
    await scene.until(lambda: not any(each.reactions for each in scene.discord.messages))
    await scene.until(lambda: not any("Thinking…" in text for text in scene.discord.texts))
    assert not scene.discord.requests[-1].path.endswith("/typing")


async def until_calm(scene: DiscordScene) -> None:
    """Wait until the channel has room: a status line comes at once then."""
    began = scene.now
    await scene.until(lambda: scene.now - began > 5)


async def test_in_a_burst_every_answer_is_one_message_and_comes_at_once(
    scene: DiscordScene,
) -> None:
    await until_calm(scene)
    before = len(scene.discord.requests)
    for number in range(5):
        scene.model.answers(f"Answer {number}.")
        asked = scene.now
        scene.discord.say(f"question {number}")
        await scene.said(f"Answer {number}.")
        assert scene.now - asked < 1
    await until_idle(scene)
    messages = [each for each in scene.discord.requests[before:] if "/messages" in each.path]
    sent = [each for each in messages if each.path.endswith("/messages")]
    assert [each.method for each in sent] == ["POST"] * 5
    assert not any(each.method == "DELETE" and "/reactions/" not in each.path for each in messages)


async def test_a_sign_is_there_before_the_model_has_said_a_word(scene: DiscordScene) -> None:
    await until_calm(scene)
    scene.model.then(Hang())
    question = scene.discord.say("hello")
    await scene.until(lambda: scene.discord.typing)
    await scene.until(lambda: draft(scene) == "-# Thinking…")
    await scene.until(lambda: EYES in scene.discord.message(question).reactions)
    await scene.until(lambda: re.fullmatch(r"-# Thinking… \(\ds\)", draft(scene)))

    assert await scene.bot.interrupt()
    await scene.said("-# stopped.")
    await until_idle(scene)
    assert scene.discord.texts[1:] == ["-# stopped."]


async def test_tools_are_told_by_short_lines_with_what_became_of_them(scene: DiscordScene) -> None:
    notes = scene.bot.data / "notes"
    notes.mkdir()
    (notes / "today.md").write_text("milk\n")
    called = [
        CallTool("Read", {"file_path": str(notes / "today.md")}),
        CallTool("Read", {"file_path": str(notes / "gone.md")}),
        CallTool("Bash", {"command": "date"}),
    ]
    scene.model.then(Reply(tuple(called)), Hang())
    scene.discord.say("what is on today?")
    await scene.until(lambda: "~~" in draft(scene) and "failed" in draft(scene))

    first, *lines = draft(scene).split("\n")
    assert re.fullmatch(r"-# Thinking…( \(\d+s\))?", first)
    assert lines[0] == "-# Read(notes/today.md) ✓"
    assert lines[1].startswith("-# Read(notes/gone.md) failed: ")
    assert lines[2].startswith("-# ~~Bash(date)~~ \\`Bash\\` is not allowed here")


async def test_a_tool_that_runs_is_shown_below_the_words_and_is_gone_from_the_answer(
    scene: DiscordScene,
) -> None:
    paused = await pause_answer(scene, "I look.", "There is milk.")
    await scene.until(lambda: "Bash(" in draft(scene))
    words, phase, tool = draft(scene).split("\n")
    assert words == "I look."
    assert re.fullmatch(r"-# Working…( \(\d+s\))?", phase)
    assert tool == "-# Bash(wait-for wait0.go) …"
    paused.resume()
    await scene.said("I look.\n\nThere is milk.")
    await until_idle(scene)
    assert len(scene.discord.said) == 2


async def test_a_thought_is_not_shown_and_the_answer_after_it_is(scene: DiscordScene) -> None:
    await until_calm(scene)
    parts = (Think("They are tired, so keep it short."), Say("Sleep now."))
    scene.model.then(Reply(parts, pace=0.05, chunk=4))
    scene.discord.say("what now?")
    answer = await scene.said("Sleep now.")
    assert not any("tired" in text for text in answer.texts)
    assert answer.texts[0] == "-# Thinking…"


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


async def test_a_newer_question_stops_the_answer_and_all_signs_end_with_it(
    scene: DiscordScene,
) -> None:
    scene.model.then(Stall(Reply((Say("About the first one"),))))
    scene.discord.say("first")
    await scene.said("About the first one")
    scene.model.answers("Both answered.")
    scene.discord.say("second")
    answer = await scene.said("Both answered.")
    await until_idle(scene)
    assert [each.text for each in scene.discord.messages[1:]] == [
        "first",
        "About the first one\n-# cut off here",
        "second",
        "Both answered.",
    ]
    assert scene.discord.messages[-1] is answer


async def test_a_turn_begun_on_the_page_is_quoted_and_streamed(scene: DiscordScene) -> None:
    paused = await script_paused_answer(scene, "One.", "Two.")
    await scene.bot.say("count\nplease")
    await scene.said_with("One.")
    paused.resume()
    await scene.said("One.\n\nTwo.")
    assert scene.discord.texts[1:] == ["> count\n> please\n-# from the page", "One.\n\nTwo."]
