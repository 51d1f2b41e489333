"""Google's events as values of ours, and the other way round. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any
from zlib import crc32
from zoneinfo import ZoneInfo

from ollim_bot.domain.calendar import LONGEST_NAME, CalendarEvent, name_problem
from ollim_bot.domain.moments import instant
from ollim_bot.integrations.google.mail_text import readable_text, tidied

PRIMARY = "primary"

_A_DAY = timedelta(days=1)
_LONGEST_SUMMARY = 500
_LONGEST_TEXT = 4000
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_OWN_NAME = "Google"
# Where the owner works, not what they do.
_NOT_BUSY_KINDS = frozenset({"workingLocation", "birthday"})


@dataclass(frozen=True, slots=True)
class EventDraft:
    """An event to be; `end` of an all-day event is the day after its last."""

    summary: str
    start: date
    end: date
    all_day: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True)
class EventChange:
    """What to change of an event; None leaves a part as it is. `start` comes with `end`."""

    summary: str | None = None
    start: date | None = None
    end: date | None = None
    all_day: bool = False
    description: str | None = None


def event_of(item: Mapping[str, Any], calendar_id: str, name: str) -> CalendarEvent | None:
    """The event; None for a cancelled one and for one without times that can be read."""
    start, end = item.get("start"), item.get("end")
    if item.get("status") == "cancelled" or not isinstance(start, dict):
        return None
    begins, ends = _side(start), _side(end if isinstance(end, dict) else {})
    if begins is None:
        return None
    all_day = not isinstance(begins, datetime)
    if ends is None or isinstance(ends, datetime) is all_day:
        ends = begins
    if all_day and ends <= begins:
        ends = begins + _A_DAY
    return CalendarEvent(
        own_id(str(item.get("id", "")), calendar_id),
        name,
        _text(item.get("summary"), _LONGEST_SUMMARY).replace("\n", " "),
        begins,
        ends,
        all_day,
        _text(item.get("location"), _LONGEST_SUMMARY).replace("\n", " "),
        _text(item.get("description"), _LONGEST_TEXT),
        _is_busy(item),
        _is_declined(item),
    )


def own_id(event_id: str, calendar_id: str) -> str:
    """An id among all calendars: two of them may have the same event."""
    return event_id if calendar_id == PRIMARY else f"{event_id}-{_mark(calendar_id)}"


def googles_id(event_id: str, calendar_id: str) -> str:
    """The reverse of `own_id`."""
    return event_id if calendar_id == PRIMARY else event_id.removesuffix(f"-{_mark(calendar_id)}")


def is_of_series(item: Mapping[str, Any]) -> bool:
    return "recurringEventId" in item or "recurrence" in item


def name_of(entry: Mapping[str, Any], calendar_id: str, taken: frozenset[str]) -> str:
    """How a calendar is called here.

    The name reaches prompts, so only a name that the owner gave counts: of a calendar of others
    without one, it is the id.
    """
    given = entry.get("summaryOverride") or (
        entry.get("summary") if entry.get("accessRole") == "owner" else ""
    )
    name = _OWN_NAME if calendar_id == PRIMARY else str(given or calendar_id)
    name = " ".join("".join(sign if sign.isprintable() else " " for sign in name).split())
    name = name[:LONGEST_NAME].strip() or _OWN_NAME
    numbered = (f"{name[: LONGEST_NAME - 4]} {number}" for number in range(2, 1000))
    return next(each for each in (name, *numbered) if not name_problem(each, taken))


def draft_body(draft: EventDraft, event_id: str, zone: tzinfo) -> dict[str, object]:
    body: dict[str, object] = {
        "id": event_id,
        "summary": draft.summary,
        "start": _written(draft.start, zone),
        "end": _written(draft.end, zone),
    }
    return {**body, "description": draft.description} if draft.description else body


def change_body(change: EventChange, zone: tzinfo) -> dict[str, object]:
    body: dict[str, object] = {}
    if change.summary is not None:
        body["summary"] = change.summary
    if change.description is not None:
        body["description"] = change.description
    if change.start is not None and change.end is not None:
        # Google merges the sides, so the other form of a time has to be taken away.
        body["start"] = {"date": None, "dateTime": None, **_written(change.start, zone)}
        body["end"] = {"date": None, "dateTime": None, **_written(change.end, zone)}
    return body


def _written(moment: date, zone: tzinfo) -> dict[str, object]:
    if isinstance(moment, datetime):
        return {"dateTime": moment.astimezone(zone).isoformat(), "timeZone": str(zone)}
    return {"date": moment.isoformat()}


def _side(side: Mapping[str, Any]) -> date | None:
    try:
        if "dateTime" not in side:
            return date.fromisoformat(str(side.get("date")))
        moment = datetime.fromisoformat(str(side["dateTime"]))
        if moment.tzinfo is None:
            return instant(moment, ZoneInfo(str(side.get("timeZone")))).astimezone(UTC)
        return moment
    except (ValueError, KeyError, OSError, OverflowError):
        return None


def _text(value: object, most: int) -> str:
    """Google's own pages write descriptions in HTML."""
    text = str(value or "")
    return (readable_text(text) if _TAG.search(text) else tidied(text))[:most]


def _is_busy(item: Mapping[str, Any]) -> bool:
    is_free = item.get("transparency") == "transparent" or item.get("eventType") in _NOT_BUSY_KINDS
    return not (is_free or _is_declined(item))


def _is_declined(item: Mapping[str, Any]) -> bool:
    guests = item.get("attendees")
    return any(
        isinstance(each, dict) and each.get("self") and each.get("responseStatus") == "declined"
        for each in (guests if isinstance(guests, list) else ())
    )


def _mark(calendar_id: str) -> str:
    return f"{crc32(calendar_id.encode()):08x}"[:4]
