"""Words about a due item: taken as they are meant, or left to the agent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ollim_bot.domain.answer_words import is_undo, settlement
from ollim_bot.domain.cron import Cron
from ollim_bot.domain.due_items import DueItem
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.jobs import ItemKind, JobSpec, Reminder, Routine
from ollim_bot.domain.occurrences import Answer, Occurrence

NOW = datetime(2026, 11, 16, 10, 15, tzinfo=UTC)
WATER = DueItem.of(
    Reminder(JobSpec(id="w1", message="Drink water."), NOW),
    Occurrence.scheduled(JobKind.REMINDER, "w1", NOW),
    MessageId("1"),
    NOW,
)
PILL = DueItem.of(
    Routine(JobSpec(id="p1", message="Pill", kind=ItemKind.DOSE), Cron.parse("0 9 * * *")),
    Occurrence.scheduled(JobKind.ROUTINE, "p1", NOW),
    MessageId("2"),
    NOW,
)
TOMORROW = datetime(2026, 11, 17, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("words", "answer", "until"),
    [
        ("done", Answer.DONE, None),
        ("Done.", Answer.DONE, None),
        ("DID IT!", Answer.DONE, None),
        ("ok, done", Answer.DONE, None),
        ("it's done", Answer.DONE, None),
        ("later", Answer.SNOOZED, NOW + timedelta(hours=1)),
        ("Later, please.", Answer.SNOOZED, NOW + timedelta(hours=1)),
        ("in an hour", Answer.SNOOZED, NOW + timedelta(hours=1)),
        ("remind me again in 20 minutes", Answer.SNOOZED, NOW + timedelta(minutes=20)),
        ("Tomorrow 9am.", Answer.SNOOZED, TOMORROW),
        ("20 min", Answer.SNOOZED, NOW + timedelta(minutes=20)),
        ("5 more minutes", Answer.SNOOZED, NOW + timedelta(minutes=5)),
        ("push it back by an hour", Answer.SNOOZED, NOW + timedelta(hours=1)),
        ("snooze it until 6pm", Answer.SNOOZED, NOW.replace(hour=18, minute=0)),
        ("not today", Answer.MOVED, TOMORROW),
        ("push it to tomorrow", Answer.MOVED, TOMORROW),
        ("let it go", Answer.LET_GO, None),
    ],
)
def test_plain_words_answer_a_reminder(words: str, answer: Answer, until: datetime | None) -> None:
    assert settlement(words, WATER, NOW) == (answer, until)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("done", Answer.TAKEN),
        ("took it", Answer.TAKEN),
        ("skipped", Answer.NOT_TAKEN),
        ("not today", Answer.NOT_TAKEN),
    ],
)
def test_the_same_words_take_or_skip_a_dose(words: str, answer: Answer) -> None:
    assert settlement(words, PILL, NOW) == (answer, None)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "done with the report, what is next?",
        "not done",
        "did it rain?",
        "why?",
        "later than 9?",
        "snooze",
        "push it to someone else",
    ],
)
def test_other_words_are_for_the_agent(words: str) -> None:
    assert settlement(words, WATER, NOW) is None


@pytest.mark.parametrize(
    ("words", "is_meant"),
    [
        ("undo", True),
        ("Oh, undo that!", True),
        ("take it back, please", True),
        ("undo the last line of the poem", False),
        ("how do I undo?", False),
        ("take the bins back", False),
    ],
)
def test_only_words_that_say_nothing_else_take_a_change_back(words: str, is_meant: bool) -> None:
    assert is_undo(words) is is_meant
