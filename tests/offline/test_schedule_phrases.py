"""Phrases about reminders and routines are understood completely, or nothing is done."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.phrase_files import read

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.phrases.moment import parse_moment
from ollim_bot.offline.intents import schedule_intent
from ollim_bot.offline.vocabulary import (
    AmbiguousIntent,
    Change,
    Remind,
    RoutineWish,
    ScheduleIntent,
)

NOW = datetime(2026, 11, 16, 10, 15, tzinfo=UTC)
_TABLES = read(Path(__file__).with_name("schedule_phrases.txt"))
_CHANGE = re.compile(r"(\w+) (reminder|routine|job): ?(.*?)(?: (--\w+) (.*))?")


def _change(words: str) -> Change:
    found = _CHANGE.fullmatch(words)
    assert found is not None, words
    verb, kind, subject, *until = found.groups()
    return Change(
        verb, None if kind == "job" else JobKind(kind), subject, tuple(filter(None, until))
    )


def _reminder(words: str) -> Remind:
    task, when = words.split(" @ ")
    return Remind(task, when)


REMINDING = [(text, _reminder(words)) for text, words in _TABLES["reminding"]]
REPEATING = [(text, RoutineWish(*words.split(" @ "))) for text, words in _TABLES["repeating"]]
CANCELLING = [(text, _change(words)) for text, words in _TABLES["cancelling"]]
ASKED_BACK = [text for (text,) in _TABLES["asked back"]]
LEFT_ALONE = [text for (text,) in _TABLES["left alone"]]
CLEAR: list[tuple[str, ScheduleIntent]] = [*REMINDING, *REPEATING, *CANCELLING]

FRAMES = ("remind me", "Remind me", "set a reminder", "can you remind me", "pls remind me")
WHENS = (
    "in 20 minutes", "in an hour", "in 2 days", "at 5pm", "tomorrow at 9", "on friday at 15:00",
    "tonight at 8", "tomorrow evening", "on 24 dec at 18:00", "at noon",
)  # fmt: skip
TASKS = (
    "drink water", "call mum", "take the bins out", "buy milk and eggs", "pay the rent",
    "Ring Åsa about Müller & Co", "check on the soup 🍲", "stand up", "send $5 to `Bob`'s \"shop\"",
)  # fmt: skip
VAGUE = (
    "later", "soon", "in a bit", "in a few minutes", "at 3", "sometime", "next week", "by friday",
    "around 5pm", "this afternoon or tomorrow", "on friday", "tomorrow", "at 26:00", "after lunch",
    "in 5", "before 5pm", "today at 8am", "in 0 minutes", "in 2 months", "when I am home", "at 5/6",
)  # fmt: skip
DENIED = ("not", "don't", "never", "no", "nothing", "if", "unless", "maybe", "actually")
QUESTIONS = (
    "did you", "why did you", "have you ever", "when do you", "do you", "will you",
    "you should not", "who asked you to", "Anna said you would", "what if you",
    "I never wanted you to", "stop:",
)  # fmt: skip
JOINTS = (
    " and ",
    ", ",
    ", and ",
    " then ",
    ". ",
    "; ",
    "\n",
    "\n\n",
    " and also ",
    " but ",
    " or ",
)
OTHERS = (
    "tell me a joke", "what time is it?", "who are you", "ask me how I am",
    "cancel the tea reminder", "every day at 8am remind me to sleep", "in 10 minutes to stretch",
    "at 6pm call dad", "remind me tomorrow at 9 to call mum", "show me my reminders",
    "wake me at 7", "tomorrow at 7", "remove the plan routine",
)  # fmt: skip
COURTEOUS = st.sampled_from(["hi! ", "hey ollim, ", "please ", "Hello there.\n", "ok, ", ""])
THANKFUL = st.sampled_from([", thanks!", " please", "\nthank you", ", thank you so much", "."])


def is_action(intent: ScheduleIntent | None) -> bool:
    return isinstance(intent, Remind | RoutineWish | Change)


@pytest.mark.parametrize(("text", "intent"), CLEAR)
def test_a_clear_phrase_is_understood(text: str, intent: ScheduleIntent) -> None:
    assert schedule_intent(text, NOW) == intent


@pytest.mark.parametrize("text", ASKED_BACK)
def test_a_doubtful_phrase_is_asked_back_with_what_to_write(text: str) -> None:
    intent = schedule_intent(text, NOW)
    assert isinstance(intent, AmbiguousIntent)
    assert "Nothing was done." in intent.reason


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_a_phrase_without_a_request_is_left_alone(text: str) -> None:
    assert schedule_intent(text, NOW) is None


@given(st.sampled_from(FRAMES), st.sampled_from(WHENS), st.sampled_from(TASKS), COURTEOUS, THANKFUL)
def test_the_order_of_words_and_courtesies_change_nothing(
    frame: str, when: str, task: str, hello: str, thanks: str
) -> None:
    expected = Remind(task, when)
    bare = "" if "send" in task else thanks
    for text in (
        f"{frame} {when} to {task}",
        f"{frame} to {task} {when}",
        f"{when}, {frame} to {task}",
    ):
        assert schedule_intent(f"{hello}{text}{bare}", NOW) == expected


@given(st.sampled_from(FRAMES), st.sampled_from(VAGUE), st.sampled_from(TASKS))
def test_an_unclear_moment_is_never_guessed(frame: str, when: str, task: str) -> None:
    assert not is_action(schedule_intent(f"{frame} {when} to {task}", NOW))
    assert not is_action(schedule_intent(f"{frame} to {task} {when}", NOW))
    assert not is_action(schedule_intent(f"{when} {frame} to {task}", NOW))


@given(st.sampled_from(CLEAR), st.sampled_from(DENIED), st.data())
def test_a_word_that_turns_the_meaning_round_stops_everything(
    clear: tuple[str, ScheduleIntent], word: str, data: st.DataObject
) -> None:
    words = clear[0].split(" ")
    place = data.draw(st.integers(0, len(words)))
    assert not is_action(schedule_intent(" ".join([*words[:place], word, *words[place:]]), NOW))


@given(st.sampled_from(CLEAR), st.sampled_from(QUESTIONS))
def test_a_question_about_it_or_a_story_of_it_does_nothing(
    clear: tuple[str, ScheduleIntent], asked: str
) -> None:
    text = clear[0]
    assert not is_action(schedule_intent(f"{asked} {text[0].lower()}{text[1:]}", NOW))


@given(st.sampled_from(CLEAR), st.sampled_from(JOINTS), st.sampled_from(OTHERS))
def test_of_two_things_none_is_done(
    clear: tuple[str, ScheduleIntent], joint: str, other: str
) -> None:
    text = clear[0].rstrip("?!.")
    assert not is_action(schedule_intent(f"{text}{joint}{other}", NOW))
    assert not is_action(schedule_intent(f"{other}{joint}{text}", NOW))


@st.composite
def with_one_word_more(draw: st.DrawFn) -> tuple[str, str]:
    text, _ = draw(st.sampled_from((*REMINDING, *REPEATING)))
    word = draw(st.text("bcdfgjqvwz", min_size=3, max_size=8))
    words = text.split(" ")
    place = draw(st.integers(0, len(words)))
    return " ".join([*words[:place], word, *words[place:]]), word


@given(with_one_word_more())
def test_no_word_is_overlooked(case: tuple[str, str]) -> None:
    text, word = case
    intent = schedule_intent(text, NOW)
    if isinstance(intent, Remind):
        assert word in intent.task.split(" ") or f"{word}:" in intent.task
    if isinstance(intent, RoutineWish):
        assert word in intent.message


@given(st.text() | st.builds("remind me {} to {}".format, st.text(), st.text()))
def test_whatever_is_promised_lies_ahead_and_was_said(text: str) -> None:
    intent = schedule_intent(text, NOW)
    if isinstance(intent, Remind):
        assert parse_moment(intent.when, NOW) > NOW
        assert set(intent.task.split()) <= {word.rstrip(".!?,") for word in text.split()} | set(
            text.split()
        )


@given(st.integers(0, 23), st.integers(0, 59), st.integers(0, 6))
def test_a_rhythm_comes_at_the_time_and_on_the_day_that_were_said(
    hour: int, minute: int, day: int
) -> None:
    date = NOW + timedelta(days=day)
    clock = f"{hour % 12 or 12}:{minute:02}{'am' if hour < 12 else 'pm'}"
    intent = schedule_intent(f"every {date:%A} at {clock} remind me to stretch", NOW)
    if (hour, minute) == (0, 0):
        assert isinstance(intent, AmbiguousIntent)
        return
    assert isinstance(intent, RoutineWish)
    following = Cron.parse(intent.cron).next(NOW, UTC)
    assert (following.hour, following.minute, f"{following:%A}") == (hour, minute, f"{date:%A}")
