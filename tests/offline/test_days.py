"""The offline model lists whole days and weeks, and treats foreign event titles as data."""

from __future__ import annotations

import json

import pytest
from tests.hostile.injected_texts import (
    ATTEMPTS,
    assert_is_literal,
    assert_is_literal_on_discord,
    assert_is_safe_for_a_terminal,
)
from tests.offline.test_actions import TOOLS, did
from tests.offline.test_everyday import COMING, REMINDERS, ROUTINES, STAMP
from tests.offline.test_rules import answer, said

from ollim_bot.kernel.prompts.prompt_context import fenced
from ollim_bot.kernel.values.taint import Untrusted
from ollim_bot.offline.actions import LIST_REMINDERS
from ollim_bot.offline.server import CallTool, Message, Say
from ollim_bot.surfaces.web.frames import render


def event(start: str, end: str, title: str, problem: str | None = None) -> dict[str, object]:
    """A row as the agent gets it: the title is fenced."""
    quoted = fenced(title, Untrusted("calendar entry", "entries of the owner's calendars"))
    return {
        "id": "a1",
        "start": start,
        "end": end,
        "all_day": "T" not in start,
        "summary": quoted if title else "",
        "calendar": "Work",
        "problem": problem,
    }


PLANNING = event("2026-11-16T14:00:00+00:00", "2026-11-16T15:00:00+00:00", "Planning")
BIRTHDAY = event("2026-11-17", "2026-11-18", "Ada's birthday")
CALL = event("2026-11-17T09:00:00+00:00", "2026-11-17T09:00:00+00:00", "")
OLD = event("2026-11-19T09:00:00+00:00", "2026-11-19T10:00:00+00:00", "Gym", "It did not answer.")


XMAS = "- d4d4d4d4 · Thu 24 Dec 18:00 (in 5 wk) · call mum (reminders/mum.md)"
TASKS = (
    "2c2c2c2c  buy stamps · overdue since yesterday\n3d3d3d3d  tax form · due Fri 20 Nov\n"
    "4e4e4e4e  buy milk\n"
)
LATE = "- overdue since yesterday: buy stamps\n"


def told(
    text: str, *events: object, cal: str | None = None, is_error: bool = False, stamp: str = STAMP
) -> str:
    """The answer with these events in the calendars. `cal` replaces the output of the command."""
    messages: list[Message] = [said(f"{stamp}{text}")]
    printed = json.dumps({"events": events}) if cal is None else cal
    results = {
        LIST_REMINDERS.name: f"{REMINDERS}\n{XMAS}",
        "ollim-bot routine list": ROUTINES,
        "ollim-bot tasks list": TASKS,
    }
    while True:
        (part,) = answer(*messages, tools=TOOLS)
        if isinstance(part, Say):
            return part.text
        assert isinstance(part, CallTool)
        called = str(part.arguments.get("command", part.name))
        is_cal = called.startswith("ollim-bot cal ")
        if called.startswith("ollim-bot rehearse "):
            found = COMING
        else:
            found = printed if is_cal else results[called]
        messages += did(part, found, refused=is_cal and is_error)


def test_today_has_events_reminders_and_routines() -> None:
    assert told("what is on today", PLANNING) == (
        f"Today:\n{LATE}- 14:00–15:00: Planning (Work)\n- 18:00: water the plants"
    )


def test_today_begins_with_what_is_open() -> None:
    waiting = "OPEN REMINDERS (call)\n- take the pill (key 0123456789ab, due today 9:00)\n"
    said_now = told(f"{waiting}\nwhat is on today", PLANNING, stamp=f"{STAMP.strip()}\n")
    assert said_now.startswith("Today:\n- open: take the pill\n")


def test_tomorrow_has_what_is_on_then() -> None:
    assert told("what's on tomorrow", PLANNING, BIRTHDAY, CALL) == (
        "Tomorrow:\n"
        "- all day: Ada's birthday (Work)\n"
        "- 8:00: remind me to take my meds\n"
        "- 9:00: ask me for my plan\n"
        "- 9:00: no title (Work)\n"
        "- 9:30: call the dentist\n"
        "- 12:00: pay the rent"
    )


def test_the_week_has_its_days_and_says_what_may_have_changed() -> None:
    assert told("my week", PLANNING, BIRTHDAY, OLD) == (
        "The next seven days:\n"
        "- today\n"
        "  - overdue since yesterday: buy stamps\n"
        "  - 14:00–15:00: Planning (Work)\n"
        "  - 18:00: water the plants\n"
        "- tomorrow\n"
        "  - all day: Ada's birthday (Work)\n"
        "  - 8:00: remind me to take my meds\n"
        "  - 9:00: ask me for my plan\n"
        "  - 9:30: call the dentist\n"
        "  - 12:00: pay the rent\n"
        "- Thu 19 Nov\n"
        "  - 9:00–10:00: Gym (Work)\n"
        "- Fri 20 Nov\n"
        "  - due: tax form\n"
        "Work may have changed: It did not answer."
    )


def test_next_week_is_the_week_that_begins_on_monday() -> None:
    assert told("what do i have next week", PLANNING) == (
        "Next week:\n- Mon 23 Nov\n  - 8:00: remind me to take my meds"
    )


def test_what_comes_next_does_not_end_with_the_week() -> None:
    lines = told("what's next").splitlines()
    assert lines[0] == "Coming up:"
    assert lines[-2:] == ["- Thu 24 Dec", "  - 18:00: call mum"]
    assert "  - 12:00: pay the rent" in lines


def test_without_calendars_the_answers_are_of_reminders_and_routines() -> None:
    assert told("what is on today") == f"Today:\n{LATE}- 18:00: water the plants"
    assert told("my week").startswith("The next seven days:\n- today\n")


@pytest.mark.parametrize("cal", ["", "There are no calendars yet.", "{", '{"events": [{}]}', "[]"])
def test_an_answer_that_is_not_understood_hides_nothing_else(cal: str) -> None:
    assert told("what is on today", cal=cal) == f"Today:\n{LATE}- 18:00: water the plants"


def test_calendars_that_cannot_be_looked_at_are_named() -> None:
    assert told("what is on today", cal="not allowed", is_error=True) == (
        f"Today:\n{LATE}- 18:00: water the plants\nI could not look at the calendars: not allowed"
    )


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)
def test_no_title_becomes_more_than_a_title(attempt: str) -> None:
    hostile = event("2026-11-16T14:00:00+00:00", "2026-11-16T15:00:00+00:00", attempt)
    lines = told("what is on today", hostile).splitlines()
    assert len(lines) == 4
    title = lines[2].removeprefix("- 14:00–15:00: ").removesuffix(" (Work)")
    assert_is_safe_for_a_terminal(title.replace("\u200d", "").replace("\u200c", ""))
    assert_is_literal(f"x {title}", render)
    assert_is_literal_on_discord(title)
