"""How a due item looks: asking, asking again, and answered; which words answer it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.answers import is_undo, settlement
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.due_items import DueItem, open_card, passed_card, settled_card
from ollim_bot.kernel.values.jobs import ItemKind, JobSpec, Reminder, Routine
from ollim_bot.kernel.values.occurrences import Answer, Occurrence

BERLIN = ZoneInfo("Europe/Berlin")
BREAK_IT = "Break it down"
NINE = datetime(2026, 11, 16, 9, tzinfo=BERLIN)
MINUTE = timedelta(minutes=1)


def water(**more: object) -> DueItem:
    spec = JobSpec(id="w1", message="drink water.", **more)  # type: ignore[arg-type]
    due = Occurrence.scheduled(JobKind.REMINDER, "w1", NINE)
    return DueItem.of(Reminder(spec, NINE), due, MessageId("1"), NINE)


def pill() -> DueItem:
    spec = JobSpec(id="p1", message="pill", kind=ItemKind.DOSE)
    routine = Routine(spec, Cron.parse("0 9,21 * * *"))
    due = Occurrence.scheduled(JobKind.ROUTINE, "p1", NINE)
    return DueItem.of(routine, due, MessageId("1"), NINE)


def labels(card: Card) -> list[str]:
    return [each.label for each in card.buttons]


def line(item: DueItem, answer: Answer, after: timedelta, until: datetime | None = None) -> str:
    at = NINE + after
    return settled_card(item.answered(answer, at, "web", until), at).title


def test_the_card_asks_in_other_words_each_time() -> None:
    item = water()
    first = open_card(item, NINE)
    again = open_card(replace(item, shown=2), NINE + 20 * MINUTE)
    assert (first.title, again.title) == ("drink water.", "drink water · 20 min ago")
    assert labels(first) == labels(again)
    assert labels(first) == ["Done", "Snooze 10 min", "1 h", "Tomorrow 9:00", "Other…", BREAK_IT]
    last = open_card(replace(item, shown=3), NINE + 30 * MINUTE)
    assert last.title == "Still open: drink water?"
    assert labels(last) == ["Done", "Later today", "Tomorrow", "Let it go", BREAK_IT]
    for number in (4, 5):
        more = open_card(replace(item, shown=number), NINE + number * 10 * MINUTE)
        assert more.title == f"Still open after {number}0 min: drink water?"
        assert labels(more) == labels(last)


def test_the_second_card_has_the_first_step_where_the_job_names_one() -> None:
    item = replace(water(first_step="Fill the glass."), shown=2)
    assert open_card(item, NINE + MINUTE).title == "Fill the glass."


def test_a_dose_is_taken_or_skipped_and_not_put_off_to_tomorrow() -> None:
    assert labels(open_card(pill(), NINE)) == ["Taken", "Skipped", "Snooze 10 min", "1 h", "Other…"]
    last = open_card(replace(pill(), shown=3), NINE)
    assert labels(last) == ["Taken", "Skipped", "Later today", "Let it go"]


@pytest.mark.parametrize(
    ("answer", "until", "said"),
    [
        (Answer.DONE, None, "✓ drink water · 9:04"),
        (Answer.LET_GO, None, "– drink water · let go 9:04"),
        (Answer.SNOOZED, NINE + 14 * MINUTE, "⏱ drink water · again at 9:14"),
        (Answer.SNOOZED, NINE + timedelta(minutes=14, seconds=33), "⏱ drink water · again at 9:14"),
        (Answer.SNOOZED, NINE + timedelta(seconds=330), "⏱ drink water · again at 9:05:30"),
        (Answer.SNOOZED, NINE + timedelta(days=1), "⏱ drink water · again tomorrow 9:00"),
        (Answer.MOVED, NINE + timedelta(days=1), "⏱ drink water · moved to tomorrow 9:00"),
    ],
)
def test_the_answer_is_one_line(answer: Answer, until: datetime | None, said: str) -> None:
    assert line(water(), answer, 4 * MINUTE, until) == said


def test_a_dose_says_whether_it_was_taken_and_which_one_where_it_is_late() -> None:
    assert line(pill(), Answer.TAKEN, 4 * MINUTE) == "✓ pill · 9:04"
    assert line(pill(), Answer.NOT_TAKEN, 4 * MINUTE) == "– pill · skipped 9:04"
    late = line(pill(), Answer.TAKEN, timedelta(hours=6, minutes=1))
    assert late == "✓ pill · 15:01 · that was the 9:00 one"
    assert line(pill(), Answer.TAKEN, timedelta(hours=6)) == "✓ pill · 15:00"


def test_the_line_stays_the_same_after_midnight() -> None:
    at = NINE + timedelta(hours=14, minutes=58)
    item = water().answered(Answer.DONE, at, "web")
    assert settled_card(item, at).title == settled_card(item, at + 10 * MINUTE).title


def test_undo_is_offered_for_ten_minutes_and_not_after_a_snooze_is_due() -> None:
    done = water().answered(Answer.DONE, NINE, "web")
    assert labels(settled_card(done, NINE + 9 * MINUTE)) == ["Undo"]
    assert labels(settled_card(done, NINE + 10 * MINUTE)) == []
    soon = water().answered(Answer.SNOOZED, NINE, "web", NINE + MINUTE)
    assert labels(settled_card(soon, NINE)) == ["Undo"]
    assert labels(settled_card(soon, NINE + MINUTE)) == []


def test_an_earlier_card_becomes_a_line_without_buttons() -> None:
    card = passed_card(water(), NINE, NINE + 10 * MINUTE)
    assert (card.title, labels(card)) == ("drink water · asked at 9:00", [])
    assert card.earlier_of == water().key
    assert (
        passed_card(water(), NINE, NINE + 24 * 60 * MINUTE).title
        == "drink water · asked yesterday 9:00"
    )


@given(st.text(min_size=1), st.sampled_from([1, 2, 3]), st.booleans())
def test_every_card_fits_every_surface(words: str, shown: int, is_dose: bool) -> None:
    item = replace(water(), title=words, shown=shown, is_dose=is_dose)
    card = open_card(item, NINE + MINUTE, "" if words.strip() else "word")
    answered = settled_card(item.answered(Answer.DONE, NINE, "web"), NINE)
    for each in (card, answered):
        assert all(len(button.custom_id) < 100 for button in each.buttons)
        assert len(each.buttons) <= 10
        assert len(each.title) <= 256


NOW, TOMORROW = NINE + 75 * MINUTE, datetime(2026, 11, 17, 9, tzinfo=BERLIN)


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
    assert settlement(words, water(), NOW) == (answer, until)


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
    assert settlement(words, pill(), NOW) == (answer, None)


@pytest.mark.parametrize(
    "words",
    [
        "", "done with the report, what is next?", "not done", "did it rain?", "why?",
        "later than 9?", "snooze", "push it to someone else",
    ],
)  # fmt: skip
def test_other_words_are_for_the_agent(words: str) -> None:
    assert settlement(words, water(), NOW) is None


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
