"""The verbs of `ollim-bot cal` that change events at Google."""

from __future__ import annotations

from datetime import date, datetime

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import Data, open_data, writable
from ollim_bot.cli.framework import Flags, Given, json_flag, plain, print_json, title, zone_of
from ollim_bot.cli.terminal import show
from ollim_bot.domain.calendar import (
    CalendarCopy,
    CalendarEvent,
    day_words,
    event_row,
    time_words,
    without_text,
)
from ollim_bot.domain.event_times import EventSpan, moved_span, read_side, read_span
from ollim_bot.errors import WrongInput

ADD = 'ollim-bot cal add "Dentist" --start "tomorrow 14:00" --end 15:00'
UPDATE = 'ollim-bot cal update 3f2a91c04b7d --start "friday 10:00"'
DELETE = "ollim-bot cal delete 3f2a91c04b7d"
_LONGEST_SUMMARY = 500
_LONGEST_DESCRIPTION = 8000


def add(given: Given, caller: Caller) -> None:
    from ollim_bot.cli.google_client import google_calendars
    from ollim_bot.integrations.google.events import EventDraft

    with writable(open_data(caller)) as data:
        span = read_span(given["start"], given["end"], data.now)
        summary = _summary(" ".join(given["summary"]))
        draft = EventDraft(summary, *span, description=_description(given) or "")
        _tell("added", google_calendars(caller, data).add(draft), data, given)


def update(given: Given, caller: Caller) -> None:
    from ollim_bot.cli.google_client import google_calendars
    from ollim_bot.integrations.google.events import EventChange

    if not given.keys() & {"summary", "start", "end", "description"}:
        raise WrongInput(f"Say what to change. Example: {UPDATE}")
    with writable(open_data(caller)) as data:
        calendars = google_calendars(caller, data)
        event = calendars.find_by_beginning(given["id"])
        span = _span(given, event, data.now)
        change = EventChange(
            _summary(given["summary"]) if "summary" in given else None,
            span.start if span else None,
            span.end if span else None,
            description=_description(given),
        )
        _tell("changed", calendars.update(event.id, change), data, given)


def delete(given: Given, caller: Caller) -> None:
    from ollim_bot.cli.google_client import google_calendars

    with writable(open_data(caller)) as data:
        calendars = google_calendars(caller, data)
        event = calendars.find_by_beginning(given["id"])
        _tell("deleted", calendars.delete(event.id), data, given)


def add_flags(parser: Flags) -> None:
    parser.usage = "%(prog)s SUMMARY --start WHEN --end WHEN [--description TEXT]"
    parser.add_argument("summary", metavar="SUMMARY", nargs="+", help="what it is")
    _time_flags(parser, required=True)
    json_flag(parser)


def update_flags(parser: Flags) -> None:
    parser.usage = "%(prog)s ID [...]"
    parser.add_argument("id", metavar="ID", help="as a list shows it, or the beginning of it")
    parser.add_argument("--summary", metavar="TEXT", help="what it is")
    _time_flags(parser, required=False)
    json_flag(parser)


def delete_flags(parser: Flags) -> None:
    parser.add_argument("id", metavar="ID", help="as a list shows it, or the beginning of it")
    json_flag(parser)


def _time_flags(parser: Flags, *, required: bool) -> None:
    parser.add_argument(
        "--start",
        metavar="WHEN",
        required=required,
        help="tomorrow 14:00, or 2026-11-20 for a whole day",
    )
    parser.add_argument(
        "--end", metavar="WHEN", required=required, help="15:00, 1h, or the last whole day"
    )
    parser.add_argument("--description", metavar="TEXT", help="what else there is to know")


def _span(given: Given, event: CalendarEvent, now: datetime) -> EventSpan | None:
    """The new times; without an end the length stays."""
    if "start" in given and "end" in given:
        return read_span(given["start"], given["end"], now)
    if "start" in given:
        return moved_span(event.start, event.end, read_side(given["start"], now))
    if "end" in given:
        return read_span(_typed(event.start, now), given["end"], now)
    return None


def _typed(moment: date, now: datetime) -> str:
    if isinstance(moment, datetime):
        return moment.astimezone(now.tzinfo).isoformat()
    return moment.isoformat()


def _summary(text: str) -> str:
    line = " ".join(text.split())
    if not line or len(line) > _LONGEST_SUMMARY:
        raise WrongInput(f"An event needs a summary of 1 to {_LONGEST_SUMMARY} characters.")
    return line


def _description(given: Given) -> str | None:
    text = given.get("description")
    if text is not None and len(text) > _LONGEST_DESCRIPTION:
        raise WrongInput(f"--description takes {_LONGEST_DESCRIPTION} characters at most.")
    return text


def _tell(done: str, event: CalendarEvent, data: Data, given: Given) -> None:
    """Say what was done; the agent is not shown text that others may have written."""
    hides_text = data.agent is not None and done != "added"
    if "json" in given:
        copy = CalendarCopy(event.calendar, "", as_of=data.now)
        row = event_row(event, copy, zone_of(data.now))
        print_json(without_text(row) if hides_text else row)
        return
    begins = event.begins(zone_of(data.now)).astimezone(data.now.tzinfo).date()
    when = f"{day_words(begins, data.now)}, {time_words(event, data.now)}"
    what = when if hides_text else f"{title(event.summary)}, {when}"
    show(plain(f"Event {done}: {what} ({event.calendar})."))
    if done == "added":
        show(f"id {event.id}")
