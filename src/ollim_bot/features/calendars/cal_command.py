"""`ollim-bot cal`: what is in the owner's calendars."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from ollim_bot.kernel.base.errors import BadPhrase, OllimError, WrongInput
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.moments import day_words, instant
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store.calendar_files import SYNC_FILE, CalendarFiles
from ollim_bot.kernel.values.calendar import (
    LONGEST_UPCOMING,
    NO_TITLE,
    CalendarCopy,
    CalendarEvent,
    added_words,
    age_words,
    event_row,
    time_words,
    today,
    upcoming,
    without_text,
)
from ollim_bot.kernel.values.phrases.durations import parse_duration
from ollim_bot.kernel.values.phrases.moment import parse_day, parse_moment
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    Noun,
    argument,
    columns,
    fenced_for,
    number_given,
    only_one,
    plain,
    print_json,
    title,
    zone_of,
)
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import Data, note, open_data, writable

if TYPE_CHECKING:
    from ollim_bot.features.calendars.feeds import CalendarFeeds
    from ollim_bot.features.google.google_calendars import GoogleCalendarEntry, GoogleCalendars

# How many seconds a reading command waits for calendars that are not current.
_PATIENCE = 5.0
_USUAL_DAYS = 7
_NONE = (
    "There are no calendars yet. `ollim-bot cal subscribe - --name Work` adds one by its secret "
    "address; docs/calendars.md shows where to find that."
)
_LONGEST_SUMMARY = 500
_LONGEST_DESCRIPTION = 8000
_DAY_OR_TIME = "tomorrow 14:00, or 2026-11-20 for a whole day"
_END_OR_LENGTH = "15:00, 1h, or the last whole day"
_ASK = "The secret address of the calendar: "

_CAL = Noun("cal")
run = _CAL.run
_ID = argument("id", metavar="ID", help="as a list shows it, or the beginning of it")
_DESCRIPTION = argument("--description", metavar="TEXT", help="what else there is to know")
_CLOCK = re.compile(r"\s*(?:at )?\d{1,2}(?:[:.]\d{2})?\s*(?:am|pm)?\s*", re.IGNORECASE)


@_CAL.verb("the events of today, of all calendars", "", JSON)
def _today(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    copies = current_copies(data, caller)
    _print_events(today(copies, data.now), copies, given, data, "Nothing is on today.")


@_CAL.verb(
    "the events of the next days",
    "--days 14",
    argument("--days", metavar="N", help=f"so many days; {_USUAL_DAYS} if omitted"),
    JSON,
)
def _upcoming(given: Given, caller: Caller) -> None:
    days = number_given(given, "days", _USUAL_DAYS, LONGEST_UPCOMING)
    data = open_data(caller)
    copies = current_copies(data, caller)
    nothing = f"Nothing is on in the next {counted(days, 'day')}."
    _print_events(upcoming(copies, data.now, days), copies, given, data, nothing)


@_CAL.verb("one event, with all its text", "3f2a91c04b7d", _ID, JSON)
def _show(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    copies = current_copies(data, caller)
    event = _found(str(given["id"]), copies)
    copy = _copy_of(event, copies)
    if "json" in given:
        print_json(_row(event, copy, data))
        return
    begins = event.begins(zone_of(data.now)).astimezone(data.now.tzinfo).date()
    when = f"{day_words(begins, data.now)}, {time_words(event, data.now)} ({event.calendar})"
    about = event.description and f"\n{event.description}"
    details = filter(None, (event.summary or NO_TITLE, when, event.location, about))
    show(_fenced(plain("\n".join(details)), data))
    show(plain(_age(copy, data.now)))


@_CAL.verb("your calendars, and when each was last read", "", JSON)
def _calendars(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    copies = current_copies(data, caller)
    others = [each for each in _at_google(data, caller) if not each.is_read]
    if data.agent is not None:
        # Another person may have named it.
        others = [each._replace(name=each.id) for each in others]
    if "json" in given:
        rows = [
            {
                "name": copy.name,
                "origin": copy.origin,
                "events": len(copy.events),
                "as_of": copy.as_of,
                "problem": copy.problem or None,
                "limits": copy.limits or None,
            }
            for copy in copies
        ]
        unread = [{"id": each.id, "name": each.name} for each in others]
        print_json({"calendars": rows, "not_read": unread})
    elif copies or others:
        lines = [(copy.name, copy.origin, _age(copy, data.now, named=False)) for copy in copies]
        lines += [(title(each.name), "Google", f"not read, id {each.id}") for each in others]
        show(plain(columns(lines)))
    else:
        show(_NONE)


def _at_google(data: Data, caller: Caller) -> Sequence[GoogleCalendarEntry]:
    """All calendars of the account; none if it is not connected or does not answer."""
    google = _google_to_read(data, caller, has_old=True)
    if google is None or not google.is_connected:
        return ()
    try:
        return google.calendars()
    except OllimError as refused:
        note(str(refused))
        return ()


@_CAL.verb(
    "write a new event into your calendar at Google",
    '"Dentist" --start "tomorrow 14:00" --end 15:00',
    argument("summary", metavar="SUMMARY", nargs="+", help="what it is"),
    argument("--start", metavar="WHEN", required=True, help=_DAY_OR_TIME),
    argument("--end", metavar="WHEN", required=True, help=_END_OR_LENGTH),
    _DESCRIPTION,
    JSON,
    usage="%(prog)s SUMMARY --start WHEN --end WHEN [--description TEXT]",
)
def _add(given: Given, caller: Caller) -> None:
    from ollim_bot.features.google.google_calendars import EventDraft
    from ollim_bot.features.google.google_command import google_calendars

    with writable(open_data(caller)) as data:
        span = read_span(given["start"], given["end"], data.now)
        summary = _summary(" ".join(given["summary"]))
        draft = EventDraft(summary, *span, description=_description(given) or "")
        event = google_calendars(caller, data).add(draft)
        _keep(data, None, event)
        _tell("added", event, data, given)


@_CAL.verb(
    "change an event at Google; of a repeated one, this one only",
    '3f2a91c04b7d --start "friday 10:00"',
    _ID,
    argument("--summary", metavar="TEXT", help="what it is"),
    argument("--start", metavar="WHEN", help=_DAY_OR_TIME),
    argument("--end", metavar="WHEN", help=_END_OR_LENGTH),
    _DESCRIPTION,
    JSON,
    usage="%(prog)s ID [...]",
)
def _update(given: Given, caller: Caller) -> None:
    from ollim_bot.features.google.google_calendars import EventChange
    from ollim_bot.features.google.google_command import google_calendars

    if not given.keys() & {"summary", "start", "end", "description"}:
        raise WrongInput(f"Say what to change. Example: {_CAL.example('update')}")
    with writable(open_data(caller)) as data:
        calendars = google_calendars(caller, data)
        event = calendars.find_by_beginning(given["id"])
        start, end, _ = _span(given, event, data.now) or (None, None, None)
        summary = _summary(given["summary"]) if "summary" in given else None
        change = EventChange(summary, start, end, description=_description(given))
        changed = calendars.update(event.id, change)
        _keep(data, event, changed)
        _tell("changed", changed, data, given)


@_CAL.verb("delete an event at Google; of a repeated one, this one only", "3f2a91c04b7d", _ID, JSON)
def _delete(given: Given, caller: Caller) -> None:
    from ollim_bot.features.google.google_command import google_calendars

    with writable(open_data(caller)) as data:
        calendars = google_calendars(caller, data)
        event = calendars.find_by_beginning(given["id"])
        deleted = calendars.delete(event.id)
        _keep(data, event, None)
        _tell("deleted", deleted, data, given)


@_CAL.verb(
    "add a calendar by its secret address, or from a file",
    "- --name Work",
    argument(
        "where",
        metavar="ADDRESS|FILE",
        help="its secret address, or an .ics file in the data directory; "
        "- reads the address from standard input, so that no list of processes shows it",
    ),
    argument("--name", metavar="NAME", help="how to call it; Calendar if omitted"),
)
def _subscribe(given: Given, caller: Caller) -> None:
    where = str(given["where"])
    if where == "-":
        where = (input(_ASK) if sys.stdin.isatty() else sys.stdin.readline()).strip()
    elif "://" not in where and caller.path(where).exists():
        where = str(caller.path(where))
    with writable(open_data(caller)) as data:
        feeds = _feeds(data)
        copy = feeds.subscribe(where, given.get("name"), data.now)
        # From now on, what is changed in a file by hand is seen.
        files = [each.file for each in feeds.sources() if each.file]
        data.keep_files(*files, is_before=True)
        _keep_calendar(data, copy, is_added=True)
        show(plain(added_words(copy, data.now)))


@_CAL.verb(
    "remove a calendar that was subscribed",
    "Work",
    argument("name", metavar="NAME", help="as `ollim-bot cal calendars` shows it"),
)
def _unsubscribe(given: Given, caller: Caller) -> None:
    with writable(open_data(caller)) as data:
        copies = {each.name: each for each in _files(data).copies()}
        name = _feeds(data).unsubscribe(str(given["name"]))
        _keep_calendar(data, copies.get(name, CalendarCopy(name, "")), is_added=False)
    show(plain(f"{name} is removed, with its address and its copy."))


@_CAL.verb("read all subscribed calendars again now", "")
def _refresh(_: Given, caller: Caller) -> None:
    with writable(open_data(caller)) as data:
        feeds = _feeds(data)
        copies = [feeds.refresh(source, data.now) for source in feeds.sources()]
        google = _google_to_read(data, caller, has_old=True)
        copies += google.refresh(data.now) if google else ()
    read = [copy for copy in copies if copy is not None]
    for copy in read:
        if not copy.problem:
            show(plain(f"{copy.name}: {counted(len(copy.events), 'event')}. {copy.limits}").strip())
    failed = [f"{copy.name}: {copy.problem}" for copy in read if copy.problem]
    if failed:
        raise OllimError("\n".join(failed))
    if not read:
        show(_NONE)


def current_copies(
    data: Data, caller: Caller, patience: float = _PATIENCE
) -> tuple[CalendarCopy, ...]:
    """The copies. If no bot keeps them current, those that are old are read again first.

    After `patience` seconds, those that could not be read in time are as they were.
    """
    files = _files(data)
    copies = files.copies()
    if running_pid(data.paths.bot_pid) is not None:
        return copies
    fresh = {copy.name for copy in copies if copy.is_fresh(data.now)}
    old = [source for source in files.sources() if source.name not in fresh]
    google = _google_to_read(data, caller, has_old=len(fresh) < len(copies))
    if not old and google is None:
        return copies
    from functools import partial
    from threading import Thread
    from time import monotonic

    def read_quietly(read: Callable[[], object]) -> None:
        # What is wrong with a calendar stands in its copy.
        with suppress(OllimError):
            read()

    deadline = monotonic() + patience
    readings: list[Callable[[], object]]
    readings = [partial(_feeds(data).refresh, source, data.now, patience) for source in old]
    if google is not None:
        readings.append(partial(google.refresh, data.now))
    # Daemon threads: a calendar that hangs delays neither the others nor the exit.
    threads = [Thread(target=read_quietly, args=(read,), daemon=True) for read in readings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - monotonic()))
    return files.copies()


def _google_to_read(data: Data, caller: Caller, *, has_old: bool) -> GoogleCalendars | None:
    """Google's calendars, if they are connected and a copy of them may be missing or old."""
    is_known = (data.paths.calendars / SYNC_FILE).exists()
    if not is_known and not data.paths.token.exists():
        return None
    from ollim_bot.features.google.google_command import google_calendars

    calendars = google_calendars(caller, data)
    return calendars if has_old or calendars.has_new_choice else None


def _files(data: Data) -> CalendarFiles:
    return CalendarFiles(data.paths, report=lambda problem: note(str(problem)))


def _feeds(data: Data) -> CalendarFeeds:
    from ollim_bot.features.calendars.feeds import CalendarFeeds

    return CalendarFeeds(data.paths, _files(data))


def _print_events(
    events: Sequence[CalendarEvent],
    copies: Sequence[CalendarCopy],
    given: Given,
    data: Data,
    nothing: str,
) -> None:
    if "json" in given:
        rows = [_row(event, _copy_of(event, copies), data) for event in events]
        print_json({"events": rows})
        return
    if not copies:
        show(_NONE)
        return
    lines = "\n".join(_by_day(events, data.now))
    show(_fenced(plain(lines), data) if events else nothing)
    show(plain("\n".join(_age(copy, data.now) for copy in copies)))


def _by_day(events: Sequence[CalendarEvent], now: datetime) -> Iterator[str]:
    days: dict[date, list[tuple[str, ...]]] = {}
    for event in events:
        begins = event.begins(zone_of(now)).astimezone(now.tzinfo).date()
        place = f", {title(event.location)}" if event.location else ""
        what = f"{title(event.summary) or NO_TITLE} ({event.calendar}){place}"
        row = f"  {time_words(event, now)}", what, event.id
        days.setdefault(max(begins, now.date()), []).append(row)
    for day, rows in days.items():
        yield f"{'Today, ' if day == now.date() else ''}{day_words(day, now)}"
        yield columns(rows)


def _age(copy: CalendarCopy, now: datetime, *, named: bool = True) -> str:
    """`Work as of 09:12`, with what is wrong with it."""
    age = f"{copy.name} {age_words(copy, now)}" if named else age_words(copy, now)
    if copy.problem:
        age += f"; the last try failed: {copy.problem.rstrip('.')}"
    return f"{age}. {copy.limits}" if copy.limits else age


def _row(event: CalendarEvent, copy: CalendarCopy, data: Data) -> Mapping[str, object]:
    """For the agent, each text that others wrote is marked as data."""
    row = event_row(event, copy, zone_of(data.now))
    texts = row.keys() - without_text(row).keys()
    return {
        key: _fenced(str(value), data) if key in texts and value else value
        for key, value in row.items()
    }


def _fenced(text: str, data: Data) -> str:
    return fenced_for(data.agent, text, "calendar entry", "entries of the owner's calendars")


def _found(event_id: str, copies: Sequence[CalendarCopy]) -> CalendarEvent:
    events = [event for copy in copies for event in copy.events]
    exact = [event for event in events if event.id == event_id]
    found = exact or [event for event in events if event_id and event.id.startswith(event_id)]
    return only_one(found, "event", event_id, "`ollim-bot cal upcoming` shows them.")


def _copy_of(event: CalendarEvent, copies: Sequence[CalendarCopy]) -> CalendarCopy:
    return next(copy for copy in copies if copy.name == event.calendar)


def _span(given: Given, event: CalendarEvent, now: datetime) -> EventSpan | None:
    """The new times; without an end the length stays."""
    if "start" in given and "end" in given:
        return read_span(given["start"], given["end"], now)
    if "start" in given:
        return moved_span(event.start, event.end, read_side(given["start"], now))
    if "end" in given:
        start = event.start
        local = start.astimezone(now.tzinfo) if isinstance(start, datetime) else start
        return read_span(local.isoformat(), given["end"], now)
    return None


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


def _keep(data: Data, before: CalendarEvent | None, after: CalendarEvent | None) -> None:
    """Keep a change of an event, for `ollim-bot changes`."""
    from ollim_bot.kernel.values.changes import EVENT, OF_CALENDAR, event_words

    event = before or after
    assert event is not None
    old = None if before is None else event_words(before)
    new = None if after is None else event_words(after)
    data.keep_elsewhere(f"{EVENT}:{event.id}", old, new, OF_CALENDAR)


def _keep_calendar(data: Data, copy: CalendarCopy, *, is_added: bool) -> None:
    """Keep that a calendar was added or removed; its address is a secret, and is not kept."""
    from ollim_bot.kernel.values.changes import CALENDAR

    words = f"{copy.name} ({copy.origin})\n"
    old, new = (None, words) if is_added else (words, None)
    data.keep_elsewhere(f"{CALENDAR}:{copy.name}", old, new)


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


class EventSpan(NamedTuple):
    """`end` of whole days is the day after the last, as calendars count."""

    start: date
    end: date
    all_day: bool


def read_span(start: str, end: str, now: datetime) -> EventSpan:
    """The span between two phrases.

    `start` is a moment, or a day for whole days; `end` is a moment, a time of the same day or a
    length such as `1h`, or the last day. Raises `WrongInput`.
    """
    begins = read_side(start, now)
    if isinstance(begins, datetime):
        ends = _end_of(end, begins, now)
        if ends.astimezone(UTC) <= begins.astimezone(UTC):
            raise WrongInput(f"--end: {end!r} is not after the start. Right: 15:00, or 1h.")
        return EventSpan(begins, ends, all_day=False)
    last = read_side(end, now)
    if isinstance(last, datetime):
        raise WrongInput(
            f"--start: {start!r} is a whole day, but --end has a time. "
            "Right: --start 2026-11-20 --end 2026-11-21, or a time for both."
        )
    if last < begins:
        raise WrongInput(f"--end: {end!r} is before the start.")
    return EventSpan(begins, last + timedelta(days=1), all_day=True)


def read_side(text: str, now: datetime) -> date:
    """A moment, also a past one if it is written out, or a day without a time."""
    written = text.strip()
    with suppress(ValueError):
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", written):
            return date.fromisoformat(written)
        return instant(datetime.fromisoformat(written), now.tzinfo or UTC)
    try:
        return parse_moment(text, now)
    except BadPhrase as no_moment:
        try:
            return parse_day(text, now.date())
        except BadPhrase:
            raise no_moment from None


def moved_span(start: date, end: date, new_start: date) -> EventSpan:
    """The span of the same length that begins at `new_start`."""
    if isinstance(new_start, datetime) and isinstance(start, datetime):
        assert isinstance(end, datetime)
        length = end.astimezone(UTC) - start.astimezone(UTC)
        moved = (new_start.astimezone(UTC) + length).astimezone(new_start.tzinfo)
        return EventSpan(new_start, moved, all_day=False)
    if not isinstance(new_start, datetime) and not isinstance(start, datetime):
        return EventSpan(new_start, new_start + (end - start), all_day=True)
    raise WrongInput("To change between whole days and a time of day, give --start and --end.")


def _end_of(text: str, begins: datetime, now: datetime) -> datetime:
    with suppress(BadPhrase):
        return (begins.astimezone(UTC) + parse_duration(text)).astimezone(begins.tzinfo)
    # A time alone is the next one after the start.
    side = read_side(text, begins if _CLOCK.fullmatch(text) else now)
    if not isinstance(side, datetime):
        raise WrongInput(f"--end: {text!r} has no time of day. Right: 15:00, or 1h.")
    return side
