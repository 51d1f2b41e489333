"""Delivered reminders: their buttons, and what a click needs when the file is gone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from ollim_bot.domain.cards import Button, ButtonStyle, Card, Color
from ollim_bot.domain.jobs import (
    Chain,
    ItemKind,
    JobSpec,
    Late,
    Model,
    Nag,
    Reminder,
    ReportMode,
    Routine,
)
from ollim_bot.domain.moments import instant, later

DONE, SNOOZE = "done", "snooze"

_LONGEST_TITLE = 256
_MORNING = 9
# A snooze is counted in whole minutes.
_MINUTE = timedelta(minutes=1)
_WAITS: Mapping[str, str] = {"10m": "Snooze 10 min", "1h": "1 h", "9am": "Tomorrow 9:00"}


def item_card(words: str, key: str) -> Card:
    """The card of a due item, which `key` names."""
    line = " ".join(words.split())
    is_short = line == words and len(line) <= _LONGEST_TITLE
    buttons = (
        Button("Done", DONE, key, ButtonStyle.SUCCESS),
        *(Button(label, SNOOZE, f"{key}:{wait}") for wait, label in _WAITS.items()),
    )
    if is_short:
        return Card(line, color=Color.BLUE, buttons=buttons)
    return Card("Reminder", words, Color.BLUE, buttons=buttons)


def snoozed_until(wait: str, now: datetime) -> datetime:
    """The moment that a button means; tomorrow is by the clocks of `now`."""
    match wait:
        case "10m":
            return later(now, timedelta(minutes=10), _MINUTE)
        case "1h":
            return later(now, timedelta(hours=1), _MINUTE)
        case _:
            tomorrow = now.date() + timedelta(days=1)
            wall = datetime(tomorrow.year, tomorrow.month, tomorrow.day, _MORNING)
            return instant(wall, now.tzinfo) if now.tzinfo else wall


def note_of(job: Reminder | Routine) -> str:
    """The job without its moment, as a text from which a snooze makes a reminder.

    A routine's moment is snoozed as a plain reminder: the agent has done its part.
    """
    spec, chain = job.spec, Chain()
    if isinstance(job, Reminder):
        chain = job.chain
    else:
        spec = replace(spec, plain=True, background=True)
    known = asdict(spec) | {
        "timezone": str(spec.timezone or ""),
        "nag": str(spec.nag or ""),
        "before": [each.total_seconds() for each in spec.before],
    }
    return json.dumps({"spec": known, "chain": asdict(chain)})


def root_in(note: str) -> str:
    """The id that all checks of the chain share."""
    known = json.loads(note)
    return str(known["chain"]["parent"] or known["spec"]["id"])


def reminder_from(note: str, new_id: str, run_at: datetime) -> Reminder:
    """The reminder of the note, with the rest of its chain, at another moment."""
    known = json.loads(note)
    spec, chain = known["spec"], known["chain"]
    zone = spec.pop("timezone")
    made = JobSpec(
        **spec
        | {
            "id": new_id,
            "model": Model(spec["model"]) if spec["model"] else None,
            "update_main_session": ReportMode(spec["update_main_session"]),
            "late": Late(spec["late"]) if spec["late"] else None,
            "allowed_tools": tuple(spec["allowed_tools"]),
            "skills": tuple(spec["skills"]),
            "kind": ItemKind(spec["kind"]) if spec.get("kind") else None,
            "nag": Nag.parse(spec["nag"]) if spec.get("nag") else None,
            "before": tuple(timedelta(seconds=each) for each in spec.get("before", ())),
            "timezone": ZoneInfo(zone) if zone else None,
        },
    )
    return Reminder(made, run_at, Chain(**chain))
