"""Things go wrong while an answer streams to Discord: it stands there whole nevertheless, once."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from devtools.localdiscord.faults import AnswerLost, Delayed, Dropped, ErrorResponse, Fault
from tests.e2e.discord.answers import sentences
from tests.e2e.discord.held import held
from tests.e2e.discord.talk import Talk
from tests.e2e.test_reminders import left, remind
from tests.engine.scene import spoken

from ollim_bot.offline.messages import CallTool, ModelRequest, Reply, Say, Stall

SEND, EDIT = "POST /channels/*/messages", "PATCH /channels/*/messages/*"

# As a run is told what to do.
TASK = "YOUR TASK:\n\nTime to drink."

FAULTS: list[tuple[str, Fault]] = [
    (SEND, ErrorResponse(429, after=0.2)),
    (SEND, Dropped()),
    (SEND, AnswerLost()),
    (SEND, Delayed(0.5)),
    (EDIT, ErrorResponse(429, after=0.2)),
    (EDIT, ErrorResponse(429, after=0.2, is_global=True)),
    (EDIT, Dropped()),
    (EDIT, AnswerLost()),
    (EDIT, Delayed(0.5)),
]


def standing(talk: Talk) -> list[str]:
    """All that both have said since the welcome."""
    return [each.text for each in talk.discord.messages[1:]]


async def answered(talk: Talk, question: str) -> str:
    """Ask, and wait until the whole answer stands below; gives it."""
    text = sentences(30, question)
    talk.model.then(Reply((Say(text),), pace=0.01, chunk=20))
    talk.discord.say(question)
    await talk.until(lambda: standing(talk)[-2:] == [question, text])
    return text


async def at_rest(talk: Talk) -> None:
    await talk.until(lambda: not any(each.reactions for each in talk.discord.messages))


async def test_what_goes_wrong_with_one_request_is_made_good(talk: Talk) -> None:
    talk.discord.allowance(10, 1.0)
    expected: list[str] = []
    for number, (pattern, fault) in enumerate(FAULTS):
        talk.discord.next_fail(pattern, fault)
        question = f"question {number}"
        expected += [question, await answered(talk, question)]
        assert talk.discord.faults_left == []

    await at_rest(talk)
    assert standing(talk) == expected


@pytest.mark.parametrize("pattern", [SEND, EDIT])
async def test_a_server_error_in_the_middle_is_made_good(talk: Talk, pattern: str) -> None:
    talk.discord.next_fail(pattern, ErrorResponse(500))
    text = await answered(talk, "what is tea?")
    await at_rest(talk)
    assert talk.discord.faults_left == []
    assert standing(talk) == ["what is tea?", text]


@pytest.mark.parametrize("resumable", [True, False])
async def test_the_socket_may_break_in_the_middle(talk: Talk, resumable: bool) -> None:
    hold = await held(talk, "One.", "Two.")
    talk.discord.drop_gateway(resumable=resumable)
    hold.let_go()
    await talk.said("One.\n\nTwo.")
    await talk.ask("and now", "Here.")
    await at_rest(talk)
    assert standing(talk) == ["go on", "One.\n\nTwo.", "and now", "Here."]


async def test_an_outage_in_the_middle_delays_the_answer_and_loses_nothing(talk: Talk) -> None:
    hold = await held(talk, "One.", "Two.")
    await talk.discord.refuse_connections()
    hold.let_go()
    assert await talk.bot.answer() == "One.\n\nTwo."
    await talk.discord.accept_again()
    await talk.said("One.\n\nTwo.")
    await talk.ask("and now", "Here.")
    await at_rest(talk)
    assert standing(talk) == ["go on", "One.\n\nTwo.", "and now", "Here."]


async def test_an_interrupt_leaves_what_was_written_with_a_mark(talk: Talk) -> None:
    talk.model.then(Stall(Reply((Say("A long story begins"),))))
    talk.discord.say("tell me a story")
    await talk.said("A long story begins")
    assert await talk.bot.interrupt()
    await talk.said("A long story begins\n-# cut off here")
    await talk.ask("are you there?", "Here.")
    await at_rest(talk)
    assert standing(talk) == [
        "tell me a story",
        "A long story begins\n-# cut off here",
        "are you there?",
        "Here.",
    ]


@pytest.mark.real_engine
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_when_the_engine_dies_its_words_are_marked_and_the_answer_stands_below(
    talk: Talk,
) -> None:
    listing = CallTool("Bash", {"command": "ollim-bot reminder list"})
    torn = Stall(Reply((Say("It is call"),)))
    talk.model.then(Reply((Say("I look."), listing)), torn)
    talk.discord.say("what is my cat called?")
    await talk.said_with("It is call")
    talk.model.answers("Miso.")
    (engine,) = talk.bot.engines()
    os.kill(engine, signal.SIGKILL)
    await talk.said("Miso.")
    await talk.ask("thanks", "Any time.")
    await at_rest(talk)
    assert standing(talk) == [
        "what is my cat called?",
        "I look.\n-# cut off here",
        "Miso.",
        "thanks",
        "Any time.",
    ]


async def test_a_newer_question_in_the_middle_of_a_long_answer_keeps_the_order(talk: Talk) -> None:
    talk.discord.allowance(10, 1.0)
    begin = sentences(80, "the first")
    talk.model.then(Stall(Reply((Say(begin),))))
    talk.discord.say("first")
    await talk.until(lambda: len(talk.discord.said) == 3 and "the first" in talk.discord.texts[-1])
    talk.model.answers("Both answered.")
    talk.discord.say("second")
    await talk.said("Both answered.")
    await at_rest(talk)
    first, *cut_off, second, answer = standing(talk)
    assert (first, second, answer) == ("first", "second", "Both answered.")
    assert " ".join("\n".join(cut_off).split()) == f"{begin} -# cut off here"


@pytest.mark.parametrize("critical", [False, True])
async def test_a_ping_in_the_middle_stands_below_the_words_and_moves_nothing(
    talk: Talk, critical: bool
) -> None:
    """What is not critical waits for the end of the turn."""
    words = {"message": "Drink water.", "critical": critical}
    talk.model.when(is_of_run, Reply((Say("Done."),)))
    talk.model.when(TASK, Reply((CallTool("mcp__discord__ping_user", words),)))
    hold = await held(talk, "One.", "Two.")
    remind(talk.bot, "water", 0, "Time to drink.")
    if critical:
        await talk.said_with("Drink water.")
    else:
        await talk.until(lambda: any(is_of_run(each) for each in talk.model.requests))
    hold.let_go()
    await talk.said("One.\n\nTwo.")
    pinged = await talk.said_with("Drink water.")
    await talk.until(lambda: not left(talk.bot))
    await talk.ask("and now", "Here.")
    await at_rest(talk)
    assert standing(talk) == ["go on", "One.\n\nTwo.", pinged.text, "and now", "Here."]


def is_of_run(request: ModelRequest) -> bool:
    return any(TASK in text for text in spoken(request))


@pytest.mark.parametrize("words", ["", "I write it."])
async def test_the_answer_stands_below_the_card_that_it_waited_for(talk: Talk, words: str) -> None:
    """As long as no word of it could be read before."""
    await talk.bot.command("/permissions default")
    write = CallTool("Write", {"file_path": str(talk.bot.data / "a.txt"), "content": "milk"})
    begin = (Say(words),) if words else ()
    talk.model.then(Reply((*begin, write)), Reply((Say("Done."),)))
    talk.discord.say("write it down")
    card = await talk.card("Allow Write?")
    await talk.until(lambda: "Write(data/a.txt) …" in talk.discord.texts[-1])
    assert talk.discord.said[-2] is card
    await talk.press(card, "Allow once")
    answer = await talk.said("I write it.\n\nDone." if words else "Done.")
    await at_rest(talk)
    assert talk.discord.said[1:] == [card, answer]
