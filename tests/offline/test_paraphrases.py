"""The offline model understands all of a message or says that it did not understand it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum, auto
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.phrase_files import alternatives, read

from ollim_bot.offline import texts
from ollim_bot.offline.actions import LIST_REMINDERS, LIST_ROUTINES, LIST_TASKS, shell_call
from ollim_bot.offline.rules import OfflineModel
from ollim_bot.offline.server import Block, Message, ModelRequest, Reply, Say
from ollim_bot.offline.situation import SHELL


class Intent(StrEnum):
    GREETING = auto()
    THANKS = auto()
    FAREWELL = auto()
    ABILITIES = auto()
    IDENTITY = auto()
    TIME = auto()
    MEMORY = auto()
    CONNECT = auto()
    UPCOMING = auto()
    REMINDERS = auto()
    ROUTINES = auto()
    DONE = auto()
    OVERWHELMED = auto()
    DESPAIR = auto()
    DECLINE = auto()


STAMP = "[2026-02-24 Tue 10:15 AM PST]\n\n"
BEFORE = "my shoe size is 43"

ANSWERS = {
    Intent.GREETING: texts.GREETING,
    Intent.THANKS: texts.THANKS,
    Intent.FAREWELL: texts.FAREWELL,
    Intent.ABILITIES: texts.WHAT_I_CAN_DO,
    Intent.IDENTITY: texts.WHAT_I_AM,
    Intent.TIME: texts.time(datetime(2026, 2, 24, 10, 15), "PST"),
    Intent.MEMORY: texts.said_before((BEFORE,)),
    Intent.CONNECT: texts.HOW_TO_CONNECT,
    Intent.UPCOMING: texts.NOTHING_UPCOMING,
    Intent.REMINDERS: texts.NO_REMINDERS,
    Intent.ROUTINES: texts.NO_ROUTINES,
    Intent.DONE: texts.TASK_DONE,
    Intent.OVERWHELMED: texts.OVERWHELMED,
    Intent.DESPAIR: texts.DESPAIR,
    Intent.DECLINE: texts.NOT_UNDERSTOOD,
}

_TABLES = {
    name: {text: frozenset(map(Intent, alternatives(accepted))) for text, accepted in rows}
    for name, rows in read(Path(__file__).with_name("paraphrases.txt")).items()
}
UNDERSTOOD, POLITE = _TABLES["understood"], _TABLES["polite"]
LONG: dict[str, frozenset[Intent]] = {
    "I went to the shop and " * 200 + "what can you do?": frozenset({Intent.DECLINE}),
    "thank you " + "and the neighbours " * 300: frozenset({Intent.DECLINE}),
    "hello " * 400: frozenset({Intent.GREETING, Intent.DECLINE}),
}
PHRASES = [row for table in (*_TABLES.values(), LONG) for row in table.items()]

RESULTS = (
    (LIST_REMINDERS, "There are no reminders."),
    (LIST_ROUTINES, "No routines. Add one: ollim-bot routine add"),
    (LIST_TASKS, "No open tasks."),
    (shell_call("rehearse", "--days", "7", "--brief"), "Nothing would happen until Tue 3 Mar."),
    (shell_call("cal", "upcoming", "--days", "7", "--json"), '{"events": []}'),
)


def answer(text: str) -> str:
    """The final answer, after all tool calls for listings."""
    spoken = [Message("user", ({"type": "text", "text": STAMP + each},)) for each in (BEFORE, text)]
    looked = [message for number, _ in enumerate(RESULTS) for message in _called(number)]
    tools = (LIST_REMINDERS.name, SHELL)
    reply = OfflineModel().reply(ModelRequest("m", (*spoken, *looked), tools=tools))
    assert isinstance(reply, Reply)
    (part,) = reply.parts
    assert isinstance(part, Say)
    return part.text


def _called(number: int) -> tuple[Message, Message]:
    call, text = RESULTS[number]
    use: Block = {
        "type": "tool_use", "id": f"{number}", "name": call.name, "input": dict(call.arguments)
    }  # fmt: skip
    result: Block = {"type": "tool_result", "tool_use_id": f"{number}", "content": text}
    return Message("assistant", (use,)), Message("user", (result,))


def understood(text: str) -> frozenset[Intent]:
    reply = answer(text)
    heard = [intent for intent, words in ANSWERS.items() if words == reply]
    # Whatever is asked back was not taken for something else.
    heard += [Intent.DECLINE] if not heard and "Nothing was done." in reply else []
    return frozenset(heard or _heard_together(reply))


def _heard_together(reply: str) -> list[Intent]:
    heard = [intent for intent, words in ANSWERS.items() if words in reply]
    assert sum(len(ANSWERS[intent]) for intent in heard) + 2 * len(heard) - 2 == len(reply)
    return heard


@pytest.mark.parametrize(("text", "accepted"), PHRASES)
def test_a_message_is_taken_for_what_it_means_or_declined(
    text: str, accepted: frozenset[Intent]
) -> None:
    assert understood(text) <= accepted


@pytest.mark.parametrize(
    ("text", "intents"),
    [
        ("thanks, bye", {Intent.THANKS, Intent.FAREWELL}),
        ("who are you and what can you do?", {Intent.IDENTITY, Intent.ABILITIES}),
        ("hello, what time is it?", {Intent.TIME}),
    ],
)
def test_everything_that_was_asked_is_answered(text: str, intents: set[Intent]) -> None:
    assert understood(text) == intents


# A feeling is heard whatever is said around it.
FEELINGS = frozenset((Intent.OVERWHELMED, Intent.DESPAIR))
KNOWN = st.sampled_from(
    [text for text, accepted in (UNDERSTOOD | POLITE).items() if FEELINGS.isdisjoint(accepted)]
)
UNKNOWN_WORDS = st.text("bcdfgjqvwz", min_size=2, max_size=8)
NEGATIONS = st.sampled_from(["not", "don't", "never", "no", "nothing", "without", "stop", "isn't"])


@st.composite
def with_one_word_more(draw: st.DrawFn) -> str:
    words = draw(KNOWN).split()
    place = draw(st.integers(0, len(words)))
    return " ".join([*words[:place], draw(UNKNOWN_WORDS | NEGATIONS), *words[place:]])


@given(with_one_word_more())
def test_a_word_that_is_not_known_is_never_overlooked(text: str) -> None:
    assert understood(text) == {Intent.DECLINE}


@given(KNOWN, st.sampled_from([" ", "   ", " \t"]))
def test_capitals_and_spaces_change_nothing(text: str, space: str) -> None:
    assert understood(f"{space}{space.join(text.upper().split(' '))}{space}") == understood(text)


@given(KNOWN, st.sampled_from("😀🙂👋🌙"), st.sampled_from("😭🙄😡💀🔥"))
def test_a_smile_changes_nothing_and_a_frown_is_not_understood(
    text: str, smile: str, frown: str
) -> None:
    assert understood(f"{text} {smile}") == understood(text)
    assert understood(f"{text} {frown}") == {Intent.DECLINE}


@pytest.mark.parametrize("intent", [each for each in Intent if each is not Intent.DECLINE])
def test_each_thing_can_be_said_in_several_ways(intent: Intent) -> None:
    assert sum(accepted == {intent} for accepted in UNDERSTOOD.values()) >= 5
