"""Reminders that come again: when, and what they need when their file is gone."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

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

_MORNING, _EVENING = 9, 20
# A snooze is counted in whole minutes.
_MINUTE = timedelta(minutes=1)


def snoozed_until(wait: str, now: datetime) -> datetime:
    """The moment that a button means: `10m`, `1h`, `today` for later today, or `9am` for tomorrow.

    Days and hours are by the clocks of `now`.
    """
    match wait:
        case "10m":
            return later(now, timedelta(minutes=10), _MINUTE)
        case "1h":
            return later(now, timedelta(hours=1), _MINUTE)
        case "today":
            return _later_today(now)
        case _:
            return _at(now.date() + timedelta(days=1), _MORNING, now)


def _later_today(now: datetime) -> datetime:
    """In three hours, or earlier in the evening, but at least an hour from now."""
    soonest, latest = (later(now, timedelta(hours=each), _MINUTE) for each in (1, 3))
    return max(soonest, min(latest, _at(now.date(), _EVENING, now)))


def _at(day: date, hour: int, now: datetime) -> datetime:
    wall = datetime(day.year, day.month, day.day, hour)
    return instant(wall, now.tzinfo) if now.tzinfo else wall


def note_of(job: Reminder | Routine) -> str:
    """The job without its moment, as a text from which a snooze makes a reminder.

    A routine's moment is snoozed as a plain reminder: the agent has done its part.
    """
    spec, chain = job.spec, Chain()
    if isinstance(job, Reminder):
        chain = job.chain
    else:
        spec = replace(spec, plain=True, background=True, must=job.must)
    known = asdict(spec) | {
        "timezone": str(spec.timezone or ""),
        "nag": str(spec.nag or ""),
        "before": [each.total_seconds() for each in spec.before],
    }
    return json.dumps({"spec": known, "chain": asdict(chain)})


@lru_cache(maxsize=256)
def note_fields(note: str) -> dict[str, dict[str, Any]]:
    """The fields of the note; those of open items are asked for again and again."""
    fields: dict[str, dict[str, Any]] = json.loads(note)
    return fields


@lru_cache(maxsize=256)
def nag_in(note: str) -> Nag | None:
    """How often the job comes again until it is answered."""
    written = note_fields(note)["spec"].get("nag")
    return Nag.parse(written) if written else None


def root_in(note: str) -> str:
    """The id that all checks of the chain share."""
    known = note_fields(note)
    return str(known["chain"]["parent"] or known["spec"]["id"])


def first_step_in(note: str) -> str:
    """The smallest step towards it; empty if the job names none."""
    return str(note_fields(note)["spec"].get("first_step", ""))


def reminder_from(note: str, new_id: str, run_at: datetime) -> Reminder:
    """The reminder of the note, with the rest of its chain, at another moment."""
    spec, chain = note_fields(note)["spec"], note_fields(note)["chain"]
    zone = spec["timezone"]
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
            "nag": nag_in(note),
            "before": tuple(timedelta(seconds=each) for each in spec.get("before", ())),
            "timezone": ZoneInfo(zone) if zone else None,
        },
    )
    return Reminder(made, run_at, Chain(**chain))
