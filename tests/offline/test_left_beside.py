"""A word of time that is left beside the time taken out of a sentence is asked about."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from ollim_bot.offline.intents import guessed_intent, schedule_intent
from ollim_bot.offline.quick_add import read_line
from ollim_bot.offline.vocabulary import AddTask, AmbiguousIntent, Remind, RoutineWish

NOW = datetime(2026, 11, 17, 14, 3, 7, 41, tzinfo=ZoneInfo("Asia/Kathmandu"))
LEFT = (
    *("half", "quarter", "past", "o'clock", "h", "next", "last", "until", "till", "except"),
    *("after", "before", "7", "seven", "5.", "march", "Friday", "EST", "pst", "CET", "gmt"),
)
AROUND = (
    "call bob {} tomorrow 9am",
    "call bob tomorrow 9am {}",
    "remind me tomorrow 9am {} to call bob",
    "remind me to call bob {} in 20 minutes",
    "Bücher {} tomorrow 9am",
    "tomorrow 9am {} Bücher",
    "take my pills {} every day at 8am",
    "gym {} every tuesday at 6pm",
    "gym every tuesday at 6pm {}",
)
ENDS = (
    "until easter",
    "until i say so",
    "till the holidays",
    "except bank holidays",
    "starting soon",
)
WITH_ENDS = (
    "gym every tuesday at 6pm {}",
    "gym at 6 every tue {}",
    "every tuesday at 6pm remind me to go to the gym {}",
    "take my pills every day at 8am {}",
    "remind me every 20 mins to drink water {}",
)
KEPT_ENDS = {
    "gym at 6pm every tue until christmas": "cron 0 18 * * 2 until 2026-12-25",
    "gym every tuesday at 18:00 until 25 dec": "cron 0 18 * * 2 until 2026-12-25",
    "take my pills every day at 8am until friday": "cron 0 8 * * * until 2026-11-20",
    "every tuesday at 6pm until 25 dec remind me to go to the gym": (
        "cron 0 18 * * 2 until 2026-12-25"
    ),
}


def asked(line: str) -> AmbiguousIntent:
    """What the chat asks of the line; nothing is done."""
    found = schedule_intent(line, NOW) or guessed_intent(line, NOW)
    assert found is None or isinstance(found, AmbiguousIntent), found
    return found or AmbiguousIntent("")


@pytest.mark.parametrize("word", LEFT)
@pytest.mark.parametrize("line", AROUND)
def test_a_word_of_time_beside_the_cut_is_asked_about(line: str, word: str) -> None:
    said = line.format(word)
    for _, sentence in asked(said).follow_up.choices:
        intent = schedule_intent(sentence, NOW)
        words = getattr(intent, "task", getattr(intent, "message", ""))
        is_in_the_text = word.casefold() in words.casefold().split()
        assert not is_in_the_text or word.strip(".") in ("7", "5", "seven"), sentence
    read = read_line(said, NOW)
    meant = () if read.problem else read.ways
    assert not any(isinstance(each.intent, Remind | RoutineWish) for each in meant), meant


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("line", WITH_ENDS)
def test_no_routine_loses_the_end_that_was_said(line: str, end: str) -> None:
    said = line.format(end)
    question = asked(said)
    assert not question.follow_up.choices
    read = read_line(said, NOW)
    assert "until 25 dec" in question.reason
    assert "until 25 dec" in read.problem
    assert all(isinstance(each.intent, AddTask) for each in read.ways)


@pytest.mark.parametrize(("line", "rhythm"), KEPT_ENDS.items())
def test_an_end_that_is_a_day_is_kept(line: str, rhythm: str) -> None:
    (way, *_) = read_line(line, NOW).ways
    assert isinstance(way.intent, RoutineWish)
    assert way.intent.cron == rhythm
    assert "until" not in way.intent.message
    assert "until" in way.intent.every


def test_both_halves_of_the_day_keep_the_end() -> None:
    read = read_line("gym at 6 every tue until christmas", NOW)
    assert [each.name for each in read.ways] == [
        "every tue at 6am until christmas",
        "every tue at 6pm until christmas",
        "task",
    ]
    found = [each.intent.cron for each in read.ways if isinstance(each.intent, RoutineWish)]
    assert found == ["cron 0 6 * * 2 until 2026-12-25", "cron 0 18 * * 2 until 2026-12-25"]


def test_a_task_in_a_month_is_asked_for_its_day() -> None:
    question = asked("renew my passport in march")
    assert "march" in question.reason
    assert "remind me march {}: renew my passport" in question.follow_up.forms
