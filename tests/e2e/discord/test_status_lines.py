"""What can be seen on Discord while a turn runs: that it runs, what it does, and when it ends."""

from __future__ import annotations

import re

import pytest
from tests.e2e.discord.held import armed, held
from tests.e2e.discord.talk import Talk

from ollim_bot.offline.messages import CallTool, Fail, Hang, Reply, Say, Stall, Think

EYES = "👀"


def draft(talk: Talk) -> str:
    """What the newest message of the bot says now."""
    return talk.discord.texts[-1]


async def nothing_goes_on(talk: Talk) -> None:
    """Neither a mark nor a status line stands there, and nobody types any more."""
    await talk.until(lambda: not any(each.reactions for each in talk.discord.messages))
    await talk.until(lambda: not any("Thinking…" in text for text in talk.discord.texts))
    assert not talk.discord.requests[-1].path.endswith("/typing")


async def test_a_sign_is_there_before_the_model_has_said_a_word(talk: Talk) -> None:
    talk.model.then(Hang())
    question = talk.discord.say("hello")
    await talk.until(lambda: talk.discord.typing)
    await talk.until(lambda: draft(talk) == "-# Thinking…")
    await talk.until(lambda: EYES in talk.discord.message(question).reactions)
    await talk.until(lambda: re.fullmatch(r"-# Thinking… \(\ds\)", draft(talk)))

    assert await talk.bot.interrupt()
    await talk.said("-# stopped.")
    await nothing_goes_on(talk)
    assert talk.discord.texts[1:] == ["-# stopped."]


async def test_tools_are_told_by_short_lines_with_what_became_of_them(talk: Talk) -> None:
    notes = talk.bot.data / "notes"
    notes.mkdir()
    (notes / "today.md").write_text("milk\n")
    called = [
        CallTool("Read", {"file_path": str(notes / "today.md")}),
        CallTool("Read", {"file_path": str(notes / "gone.md")}),
        CallTool("Bash", {"command": "date"}),
    ]
    talk.model.then(Reply(tuple(called)), Hang())
    talk.discord.say("what is on today?")
    await talk.until(lambda: "~~" in draft(talk) and "failed" in draft(talk))

    first, *lines = draft(talk).split("\n")
    assert re.fullmatch(r"-# Thinking…( \(\d+s\))?", first)
    assert lines[0] == "-# Read(notes/today.md) ✓"
    assert lines[1].startswith("-# Read(notes/gone.md) failed: ")
    assert lines[2].startswith("-# ~~Bash(date)~~ \\`Bash\\` is not allowed here")


async def test_a_tool_that_runs_is_shown_below_the_words_and_is_gone_from_the_answer(
    talk: Talk,
) -> None:
    hold = await held(talk, "I look.", "There is milk.")
    await talk.until(lambda: "Bash(" in draft(talk))
    words, phase, tool = draft(talk).split("\n")
    assert words == "I look."
    assert re.fullmatch(r"-# Working…( \(\d+s\))?", phase)
    assert tool == "-# Bash(sh wait0.sh) …"
    hold.let_go()
    await talk.said("I look.\n\nThere is milk.")
    await nothing_goes_on(talk)
    assert len(talk.discord.said) == 2


async def test_a_thought_is_not_shown_and_the_answer_after_it_is(talk: Talk) -> None:
    parts = (Think("They are tired, so keep it short."), Say("Sleep now."))
    talk.model.then(Reply(parts, pace=0.05, chunk=4))
    talk.discord.say("what now?")
    answer = await talk.said("Sleep now.")
    assert not any("tired" in text for text in answer.texts)
    assert answer.texts[0] == "-# Thinking…"


@pytest.mark.real_engine
async def test_a_failure_takes_the_place_of_the_status_line_and_what_lasts_is_told_there(
    talk: Talk,
) -> None:
    busy = Fail(529, "overloaded_error", "busy", retry_after=2)
    talk.model.then(busy, Reply((Say("Back."),)))
    talk.discord.say("are you there?")
    answer = await talk.said("Back.")
    assert any(re.search(r"^-# Retrying \(1 of \d+\)…", text) for text in answer.texts)

    talk.model.then(Fail(403, "permission_error", "no"))
    talk.discord.say("hello")
    note = await talk.said_with("refused the login")
    await nothing_goes_on(talk)
    assert talk.discord.said[2:] == [note]
    talk.model.answers("Now it works.")
    (retry,) = note.buttons
    assert retry["label"] == "Retry"
    await talk.press(note, "Retry")
    await talk.said("Now it works.")
    await talk.until(lambda: note.buttons[0]["disabled"])
    assert [each.text for each in talk.discord.messages].count("hello") == 1

    talk.model.when(lambda request: "summary" in request.last_user_text.lower(), Hang())
    talk.discord.slash("compact")
    await talk.until(lambda: draft(talk).startswith("-# Compacting…"))


async def test_a_newer_question_stops_the_answer_and_all_signs_end_with_it(talk: Talk) -> None:
    talk.model.then(Stall(Reply((Say("About the first one"),))))
    talk.discord.say("first")
    await talk.said("About the first one")
    talk.model.answers("Both answered.")
    talk.discord.say("second")
    answer = await talk.said("Both answered.")
    await nothing_goes_on(talk)
    assert [each.text for each in talk.discord.messages[1:]] == [
        "first",
        "About the first one\n-# cut off here",
        "second",
        "Both answered.",
    ]
    assert talk.discord.messages[-1] is answer


async def test_a_turn_begun_on_the_page_is_quoted_and_streamed(talk: Talk) -> None:
    hold = await armed(talk, "One.", "Two.")
    await talk.bot.say("count\nplease")
    await talk.said_with("One.")
    hold.let_go()
    await talk.said("One.\n\nTwo.")
    assert talk.discord.texts[1:] == ["> count\n> please\n-# from the page", "One.\n\nTwo."]
