"""Everyday phrases do what they mean through the model's tools, or change nothing."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.offline.test_actions import TOOLS, did
from tests.offline.test_rules import answer, said
from tests.phrase_files import pairs, read

from ollim_bot.kernel.values.phrases.durations import parse_duration
from ollim_bot.kernel.values.phrases.moment import parse_moment
from ollim_bot.kernel.values.phrases.rhythm import parse_rhythm
from ollim_bot.offline import texts
from ollim_bot.offline.actions import (
    ADD_REMINDER,
    CANCEL_REMINDER,
    LIST_REMINDERS,
    LIST_ROUTINES,
    LIST_TASKS,
    shell_call,
)
from ollim_bot.offline.server import CallTool, Message, Say

EVERYDAY = pairs(read(Path(__file__).with_name("everyday.txt"))["everyday"])
NOW = datetime(2026, 11, 16, 10, 15, tzinfo=UTC)
STAMP = "[2026-11-16 Mon 10:15 AM UTC]\n\n"
DUE = {"rent": (17, 12, 0), "plants": (16, 18, 0), "dentist": (17, 9, 30)}
NAMES = {
    "a1a1a1a1": "rent", "b2b2b2b2": "plants", "c3c3c3c3": "dentist",
    "d4d4d4d4": "meds", "e5e5e5e5": "plan", "f6f6f6f6": "stretch",
}  # fmt: skip
REMINDERS = (
    "- b2b2b2b2 · today 18:00 (in 7 h) · water the plants (reminders/plants.md)\n"
    "- c3c3c3c3 · tomorrow 9:30 (in 23 h) · call the dentist (reminders/dentist.md)\n"
    "- a1a1a1a1 · tomorrow 12:00 (in 1 d) · pay the rent (reminders/rent.md)"
)
ROUTINES = (
    "d4d4d4d4  tomorrow 8:00  remind me to take my meds\n"
    "e5e5e5e5  tomorrow 9:00  ask me for my plan\n"
    "f6f6f6f6  paused         remind me to stretch"
)
DENTIST = {
    "start": "2026-11-16T15:00:00+00:00", "end": "2026-11-16T16:00:00+00:00", "all_day": False,
    "summary": "Dentist", "calendar": "Work", "problem": None,
}  # fmt: skip
COMING = (
    "2026-11-16 18:00  water the plants\n"
    "2026-11-17 08:00  remind me to take my meds\n"
    "2026-11-17 09:00  ask me for my plan\n"
    "2026-11-17 09:30  call the dentist\n"
    "2026-11-17 12:00  pay the rent\n"
    "2026-11-23 08:00  remind me to take my meds"
)
EVENTS = json.dumps({"events": [DENTIST]})
RESULTS = (
    (LIST_REMINDERS, REMINDERS),
    (LIST_ROUTINES, ROUTINES),
    (LIST_TASKS, "2c2c2c2c  buy milk\n"),
    *((shell_call("cal", *days, "--json"), EVENTS) for days in (
        ("today",), *(("upcoming", "--days", days) for days in ("2", "7", "14"))
    )),
    *((shell_call("rehearse", "--days", n, "--brief"), COMING) for n in ("1", "2", "7", "14")),
)  # fmt: skip
LISTS = {
    "list reminders": {texts.REMINDERS},
    "list routines": {texts.ROUTINES},
    "list what comes": {texts.UPCOMING},
    "list next week": {texts.NEXT_WEEK},
    "list today": {texts.TODAY},
    "list tomorrow": {texts.TOMORROW},
    "list week": {texts.THE_WEEK},
}


def conversation(text: str) -> tuple[list[CallTool], str]:
    """The tool calls of a turn, each with a realistic result, and its final text."""
    messages: list[Message] = [said(f"{STAMP}{text}")]
    calls: list[CallTool] = []
    while True:
        (part,) = answer(*messages, tools=TOOLS)
        if isinstance(part, Say):
            return calls, part.text
        assert isinstance(part, CallTool)
        assert part not in calls
        calls.append(part)
        messages += did(part, next((text for call, text in RESULTS if call == part), "ok"))


def outcome(text: str) -> str:
    calls, words = conversation(text)
    looks = [call for call, _ in RESULTS]
    changes = [call for call in calls if call not in looks]
    if changes:
        return "; ".join(change_of(call) for call in changes)
    return next(listed(words), f"ask: {words}")


def listed(words: str) -> Iterator[str]:
    heads = {line for line in words.splitlines() if line.endswith(":")}
    yield from (name for name, lines in LISTS.items() if heads == lines)


def change_of(call: CallTool) -> str:
    given = call.arguments
    if call.name == CANCEL_REMINDER:
        return f"cancel {NAMES[str(given['reminder_id'])]}"
    if call.name == ADD_REMINDER:
        return f"remind: {given['prompt']} @ {moment_of(call):%m-%d %H:%M}"
    _, noun, verb, *rest = shlex.split(str(given["command"]))
    if verb == "add":
        message, flag, when = rest
        cron = parse_rhythm(when, NOW) if flag == "--every" else when
        return f"routine: {message.removeprefix('--message=')} @ {cron}"
    name = NAMES[rest[0]]
    if verb != "snooze":
        assert (noun == "reminder") == (name in DUE)
        return f"{verb} {name}"
    return f"snooze {name} until {snoozed(name, *rest[1:]):%m-%d %H:%M}"


def moment_of(call: CallTool) -> datetime:
    if "run_at" in call.arguments:
        return parse_moment(str(call.arguments["run_at"]), NOW)
    return NOW + timedelta(minutes=float(str(call.arguments["delay_minutes"])))


def snoozed(name: str, flag: str, words: str) -> datetime:
    day, hour, minute = DUE[name]
    due = datetime(2026, 11, day, hour, minute, tzinfo=UTC)
    return due + parse_duration(words) if flag == "--for" else parse_moment(words, NOW)


def is_right(found: str, wanted: str) -> bool:
    if wanted.startswith("ask:"):
        return found.startswith("ask:") and wanted.removeprefix("ask:").strip() in found
    return found == wanted


@pytest.mark.parametrize(("text", "wanted"), EVERYDAY.items())
def test_an_everyday_phrase_leads_to_what_was_meant(text: str, wanted: str) -> None:
    assert is_right(outcome(text), wanted)
