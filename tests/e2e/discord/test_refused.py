"""Discord refuses something: the answer is whole or says what is missing, and stands in order."""

from __future__ import annotations

import time

import pytest
from devtools.localdiscord.faults import Delayed, ErrorResponse
from tests.e2e.discord.answers import sentences, tokens
from tests.e2e.discord.held import Hold, armed, held
from tests.e2e.discord.talk import Talk

from ollim_bot.offline.messages import Reply, Say

SEND, EDIT = "POST /channels/*/messages", "PATCH /channels/*/messages/*"
# Seconds; the client of Discord would try for 16 of them.
PATIENCE = 13.0
TYPING, MARK = "POST /channels/*/typing", "PUT /channels/*/reactions/*"


def visible(talk: Talk) -> list[str]:
    """All that both have said since the welcome."""
    return [each.text for each in talk.discord.messages[1:]]


def never_above(talk: Talk, question: str, answer: str) -> bool:
    """Whether these words were shown in messages after the question only, at any time."""
    messages = talk.discord.state.messages.values()
    asked = next(int(each.id) for each in messages if each.text == question)
    shown = [each for each in messages if any(answer in text for text in each.texts)]
    return bool(shown) and all(int(each.id) > asked for each in shown)


async def at_rest(talk: Talk) -> None:
    await talk.until(lambda: not any(each.reactions for each in talk.discord.messages))


async def test_neither_a_mark_nor_typing_is_needed_for_an_answer(talk: Talk) -> None:
    talk.discord.next_fail(MARK, ErrorResponse(403, 90001), None)
    talk.discord.next_fail(TYPING, ErrorResponse(500), 5)
    await talk.ask("first", "One.")
    await talk.ask("second", "Two.")
    assert visible(talk) == ["first", "One.", "second", "Two."]


@pytest.mark.parametrize(
    "refusal", [ErrorResponse(404, 10008), ErrorResponse(403, 50005), ErrorResponse(400, 50035)]
)
async def test_where_an_edit_is_refused_the_answer_is_a_new_message(
    talk: Talk, refusal: ErrorResponse
) -> None:
    """Once while it streams, and once when it is whole."""
    hold = await armed(talk, "One.", "Two.")
    talk.discord.next_fail(EDIT, refusal)
    talk.discord.say("go on")
    await talk.until(lambda: not talk.discord.faults_left)
    hold.let_go()
    await talk.said("One.\n\nTwo.")

    hold = await held(talk, "Three.", "Four.")
    talk.discord.next_fail(EDIT, refusal, 2)
    hold.let_go()
    await talk.said("Three.\n\nFour.")
    talk.discord.mend()
    await talk.ask("and now", "Here.")
    await at_rest(talk)
    expected = ["go on", "One.\n\nTwo.", "go on", "Three.\n\nFour.", "and now", "Here."]
    await talk.until(lambda: visible(talk) == expected)


async def test_an_edit_that_fails_again_and_again_does_not_keep_the_answer_back_for_long(
    talk: Talk,
) -> None:
    talk.discord.next_fail(EDIT, ErrorResponse(500), None)
    talk.model.answers("One.")
    talk.discord.say("first")
    await talk.bot.answer()
    whole_at = time.monotonic()
    await talk.said("One.")
    assert time.monotonic() - whole_at < PATIENCE
    talk.discord.mend()
    await talk.ask("second", "Two.")
    await at_rest(talk)
    await talk.until(lambda: visible(talk) == ["first", "One.", "second", "Two."])
    assert never_above(talk, "second", "Two.")


@pytest.mark.parametrize(
    "refusal", [ErrorResponse(400, 50035, "Invalid Form Body"), ErrorResponse(403, 50007)]
)
async def test_a_second_message_that_is_refused_once_is_sent_again(
    talk: Talk, refusal: ErrorResponse
) -> None:
    text = sentences(70, "tea")
    hold = await second_message_refused(talk, text, refusal, times=1)
    hold.let_go()
    await talk.until(lambda: tokens(visible(talk)) == tokens(["go on", text, "That is all."]))
    await talk.ask("and now", "Here.")
    await at_rest(talk)
    assert tokens(visible(talk)) == tokens(["go on", text, "That is all.", "and now", "Here."])


@pytest.mark.parametrize(
    "refusal", [ErrorResponse(400, 50035, "Invalid Form Body"), ErrorResponse(403, 50007)]
)
async def test_of_a_second_message_that_is_refused_for_good_the_owner_is_told(
    talk: Talk, refusal: ErrorResponse
) -> None:
    text = sentences(70, "tea")
    hold = await second_message_refused(talk, text, refusal, times=2)
    hold.let_go()
    note = await talk.said_with("This did not arrive on Discord: “Sentence 1 about tea")
    assert "Only its beginning arrived" in note.text
    await talk.ask("and now", "Here.")
    await at_rest(talk)
    question, beginning, told, *rest = visible(talk)
    assert (question, told, rest) == ("go on", note.text, ["and now", "Here."])
    assert text.startswith(beginning.split("\n")[0])


async def second_message_refused(talk: Talk, text: str, refusal: ErrorResponse, times: int) -> Hold:
    """An answer that fills two messages while it streams, and is held open then."""
    hold = await armed(talk, text, "That is all.")
    talk.discord.next_fail(SEND, Delayed(0.0))
    talk.discord.next_fail(SEND, refusal, times)
    talk.discord.say("go on")
    await talk.until(lambda: any(each.status == refusal.status for each in talk.discord.requests))
    return hold


async def test_no_answer_is_ever_shown_above_its_question(talk: Talk) -> None:
    """Questions come faster than they are answered, and edits fail in between."""
    talk.discord.allowance(10, 1.0)
    numbers = ["one", "two", "three", "four", "five", "six"]
    for number in numbers:
        text = sentences(12, number)
        talk.model.when(f"question {number}", Reply((Say(text),), pace=0.02, chunk=20))
    for place, number in enumerate(numbers):
        if place % 2:
            talk.discord.next_fail(EDIT, ErrorResponse(404, 10008))
        talk.discord.say(f"question {number}")
        await talk.said_with(f"about {number} ends")
    last = sentences(12, "six")
    await talk.said(last)
    await at_rest(talk)
    for number in numbers:
        assert never_above(talk, f"question {number}", f"about {number} ends")
    assert visible(talk)[-1] == last
