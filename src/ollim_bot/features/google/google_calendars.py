"""Google's events as values of ours, and the other way round. Pure."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, NamedTuple
from urllib.parse import quote
from zlib import crc32
from zoneinfo import ZoneInfo

from ollim_bot.features.google.gmail import readable_text, tidied
from ollim_bot.features.google.google_client import GoogleClient
from ollim_bot.features.google.google_values import GoogleService
from ollim_bot.features.google.tokens import GoogleTokenStore
from ollim_bot.kernel.base.errors import (
    EventNotFound,
    GoogleRefused,
    OllimError,
    SignInNeeded,
    Unreachable,
    WrongInput,
)
from ollim_bot.kernel.base.moments import instant
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit
from ollim_bot.kernel.store.calendar_files import SYNC_FILE, CalendarFiles
from ollim_bot.kernel.store.files import PRIVATE, FileLock, OsDisk, remove_durably, write_atomically
from ollim_bot.kernel.values.calendar import (
    LONGEST_NAME,
    CalendarCopy,
    CalendarEvent,
    between,
    find_event,
    name_problem,
)

PRIMARY = "primary"

_A_DAY = timedelta(days=1)
_LONGEST_SUMMARY = 500
_LONGEST_TEXT = 4000
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_OWN_NAME = "Google"
# Where the owner works, not what they do.
_NOT_BUSY_KINDS = frozenset({"workingLocation", "birthday"})
_SERIES = frozenset({"recurringEventId", "recurrence"})


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
    is_free = item.get("transparency") == "transparent" or item.get("eventType") in _NOT_BUSY_KINDS
    return CalendarEvent(
        own_id(str(item.get("id", "")), calendar_id),
        name,
        _text(item.get("summary"), _LONGEST_SUMMARY).replace("\n", " "),
        begins,
        ends,
        all_day,
        _text(item.get("location"), _LONGEST_SUMMARY).replace("\n", " "),
        _text(item.get("description"), _LONGEST_TEXT),
        not (is_free or _is_declined(item)),
        _is_declined(item),
    )


def own_id(event_id: str, calendar_id: str) -> str:
    """An id among all calendars: two of them may have the same event."""
    return event_id if calendar_id == PRIMARY else f"{event_id}-{_mark(calendar_id)}"


def _event_path(event_id: str, calendar_id: str) -> str:
    """The address of the event at Google with the id that `own_id` made."""
    googles = event_id.removesuffix("" if calendar_id == PRIMARY else f"-{_mark(calendar_id)}")
    return f"{_events(calendar_id)}/{quote(googles, safe='')}"


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


def _is_declined(item: Mapping[str, Any]) -> bool:
    guests = item.get("attendees")
    return any(
        isinstance(each, dict) and each.get("self") and each.get("responseStatus") == "declined"
        for each in (guests if isinstance(guests, list) else ())
    )


def _mark(calendar_id: str) -> str:
    return f"{crc32(calendar_id.encode()):08x}"[:4]


_LIST = "/calendar/v3/users/me/calendarList"
_BACK = timedelta(days=60)
_AHEAD = timedelta(days=400)
# After so many days all is read again, so that the copy reaches as far ahead as before.
_WHOLE_AFTER = timedelta(days=14)
_OF_A_PAGE = 2500
_MOST_PAGES = 40


@dataclass(frozen=True, slots=True)
class _Synced:
    """What is known of a calendar: `token` asks Google for the changes since the last reading."""

    id: str
    name: str
    token: str = ""
    first: str = ""
    read_on: str = ""


class GoogleCalendarEntry(NamedTuple):
    """A calendar of the account. `is_read` says that it is in `google_calendars`."""

    id: str
    name: str
    is_read: bool


class GoogleCalendars:
    """Keeps the copies of the calendars `ids`, and changes events. May block.

    A change of an event shows in the copy at once. Every change of the copies is one step among all
    processes.
    """

    def __init__(
        self,
        paths: DataPaths,
        tokens: GoogleTokenStore,
        client: GoogleClient,
        zone: tzinfo,
        ids: Sequence[str] = (PRIMARY,),
    ) -> None:
        self._paths = paths
        self._tokens = tokens
        self._client = client
        self._zone = zone
        self._ids = tuple(dict.fromkeys(ids))
        self._files = CalendarFiles(paths)
        self._sync_file = paths.calendars / SYNC_FILE
        self._lock = FileLock(paths.lock_of(self._sync_file))

    @property
    def is_connected(self) -> bool:
        """Whether the owner connected the calendar; true also after Google ended that."""
        token = self._tokens.read()
        if token is None:
            return self._tokens.revocation() is not None
        return GoogleService.CALENDAR in token.services

    @property
    def has_new_choice(self) -> bool:
        """Whether other calendars are wanted than those that were read last."""
        return self.is_connected and self._known().keys() != set(self._ids)

    def refresh(self, now: datetime) -> Sequence[CalendarCopy]:
        """Read the changes of all of them; a failure is in the `problem` of a copy.

        Copies of calendars that are not wanted any more are removed. Raises `StorageError`.
        """
        if not self.is_connected and not self._sync_file.exists():
            return ()
        with self._changing():
            known = self._known()
            wanted = self._ids if self.is_connected else ()
            for gone in [each for each in known.values() if each.id not in wanted]:
                self._files.remove(gone.name)
                del known[gone.id]
                self._keep(known)
            copies = []
            for calendar_id in wanted:
                synced, copy = self._refreshed(calendar_id, known, now)
                # The copy comes first: after a crash the same changes are read again.
                self._files.write_copy(copy)
                known[calendar_id] = synced
                self._keep(known)
                copies.append(copy)
            return copies

    def calendars(self) -> Sequence[GoogleCalendarEntry]:
        """All calendars of the account."""
        self._client.require(GoogleService.CALENDAR)
        return [
            GoogleCalendarEntry(
                str(item.get("id", "")),
                " ".join(str(item.get("summaryOverride") or item.get("summary") or "").split()),
                item.get("id") in self._ids or (bool(item.get("primary")) and PRIMARY in self._ids),
            )
            for item in self._pages(_LIST, {"maxResults": 250})[0]
        ]

    def add(self, draft: EventDraft) -> CalendarEvent:
        """Add an event to the first calendar of those that are read."""
        self._client.require(GoogleService.CALENDAR)
        calendar_id = self._ids[0]
        # With an id of our own the request can be repeated: a second event cannot come of it.
        event_id = secrets.token_hex(13)
        body = draft_body(draft, event_id, self._zone)
        path = _events(calendar_id)
        try:
            item = self._client.call("POST", path, body=body, is_repeatable=True)
        except GoogleRefused as refused:
            if refused.status != 409:
                raise
            item = self._client.call("GET", f"{path}/{event_id}")
        return self._shown(calendar_id, item)

    def update(self, event_id: str, change: EventChange) -> CalendarEvent:
        """Change one event, or one instance of a repeated one."""
        calendar_id, known = self._place_of(event_id)
        path = _event_path(known.id, calendar_id)
        item = self._client.call("PATCH", path, body=change_body(change, self._zone))
        return self._shown(calendar_id, item)

    def delete(self, event_id: str) -> CalendarEvent:
        """Delete one event, or one instance of a repeated one. One that is gone is deleted too."""
        calendar_id, known = self._place_of(event_id)
        try:
            self._client.call("DELETE", _event_path(known.id, calendar_id))
        except GoogleRefused as refused:
            if refused.status not in (404, 410):
                raise
        with self._changing():
            copy = self._files.copy(known.calendar)
            if copy is not None:
                kept = tuple(each for each in copy.events if each.id != known.id)
                self._files.write_copy(copy._replace(events=kept))
        return known

    def find(self, event_id: str) -> CalendarEvent:
        """The event of a calendar at Google with this id. Raises `OllimError`."""
        return self._place_of(event_id)[1]

    def find_by_beginning(self, beginning: str) -> CalendarEvent:
        """The event with this id, or the only one whose id begins so. Raises `OllimError`."""
        self._client.require(GoogleService.CALENDAR)
        ids = [event.id for copy in self._files.copies() for event in copy.events]
        fitting = [each for each in ids if beginning and each.startswith(beginning)]
        if beginning in ids:
            fitting = [beginning]
        if len(fitting) == 1:
            return self.find(fitting[0])
        if not fitting:
            raise EventNotFound(beginning)
        raise WrongInput(f"Several events begin with {beginning}. Give more of the id.")

    def _place_of(self, event_id: str) -> tuple[str, CalendarEvent]:
        self._client.require(GoogleService.CALENDAR)
        copies = self._files.copies()
        event = find_event(copies, event_id)
        if event is None:
            raise EventNotFound(event_id)
        ids = {each.name: each.id for each in self._known().values()}
        if event.calendar not in ids:
            raise OllimError(
                f"{event.calendar} is read at its address and cannot be changed from here. "
                "Change the event where the calendar is kept."
            )
        return ids[event.calendar], event

    def _shown(self, calendar_id: str, item: Mapping[str, Any]) -> CalendarEvent:
        """Put the answer of a change into the copy."""
        with self._changing():
            known = self._known()
            synced = known.get(calendar_id) or self._named(calendar_id)
            event = event_of(item, calendar_id, synced.name)
            if event is None:
                raise Unreachable("Google's answer could not be understood. Try again later.")
            copy = self._files.copy(synced.name) or CalendarCopy(synced.name, _origin(calendar_id))
            others = tuple(each for each in copy.events if each.id != event.id)
            self._files.write_copy(copy._replace(events=(*others, event)))
            if calendar_id not in known:
                self._keep({**known, calendar_id: synced})
        return event

    def _refreshed(
        self, calendar_id: str, known: Mapping[str, _Synced], now: datetime
    ) -> tuple[_Synced, CalendarCopy]:
        before = known.get(calendar_id)
        copy = self._files.copy(before.name) if before else None
        try:
            if before is None or copy is None or not _is_enough(before, now):
                return self._whole(calendar_id, known, now)
            changed = self._changed(before, copy, now)
            return changed or self._whole(calendar_id, known, now)
        except (SignInNeeded, GoogleRefused, Unreachable) as failed:
            # A calendar that could never be read has its id for a name.
            synced = before or _Synced(calendar_id, name_of({}, calendar_id, self._taken()))
            copy = copy or CalendarCopy(synced.name, _origin(calendar_id))
            return synced, copy.failed(_problem(failed, calendar_id), now)

    def _changed(
        self, synced: _Synced, copy: CalendarCopy, now: datetime
    ) -> tuple[_Synced, CalendarCopy] | None:
        """The copy after the changes since the last reading; None if all has to be read.

        A change of a series is not told instance by instance, so then all is read.
        """
        asked = {"syncToken": synced.token, "singleEvents": True, "maxResults": _OF_A_PAGE}
        try:
            items, token = self._pages(_events(synced.id), asked)
        except GoogleRefused as refused:
            if refused.status == 410:
                return None
            raise
        events = {event.id: event for event in copy.events}
        for item in items:
            if not _SERIES.isdisjoint(item):
                return None
            if (event := event_of(item, synced.id, synced.name)) is not None:
                events[event.id] = event
            elif events.pop(own_id(str(item.get("id", "")), synced.id), None) is None:
                return None
        return replace(synced, token=token), self._copy(synced, events, now)

    def _whole(
        self, calendar_id: str, known: Mapping[str, _Synced], now: datetime
    ) -> tuple[_Synced, CalendarCopy]:
        synced = known.get(calendar_id) or self._named(calendar_id)
        today = now.astimezone(self._zone).date()
        first, last = today - _BACK, today + _AHEAD
        asked = {
            "singleEvents": True,
            "timeMin": self._midnight(first).isoformat(),
            "timeMax": self._midnight(last).isoformat(),
            "maxResults": _OF_A_PAGE,
        }
        items, token = self._pages(_events(calendar_id), asked)
        found = (event_of(item, calendar_id, synced.name) for item in items)
        events = {event.id: event for event in found if event is not None}
        synced = replace(synced, token=token, first=first.isoformat(), read_on=today.isoformat())
        return synced, self._copy(synced, events, now)

    def _copy(
        self, synced: _Synced, events: Mapping[str, CalendarEvent], now: datetime
    ) -> CalendarCopy:
        first = date.fromisoformat(synced.first)
        last = date.fromisoformat(synced.read_on) + _AHEAD
        copy = CalendarCopy(synced.name, _origin(synced.id), tuple(events.values()))
        within = between([copy], self._midnight(first), self._midnight(last))
        return copy._replace(events=within, as_of=now, first=first, last=last, zone=str(self._zone))

    def _named(self, calendar_id: str) -> _Synced:
        """A calendar that was not read before, with a name that no other has."""
        path = f"{_LIST}/{quote(calendar_id, safe='')}"
        entry = {} if calendar_id == PRIMARY else self._client.call("GET", path)
        return _Synced(calendar_id, name_of(entry, calendar_id, self._taken()))

    def _taken(self) -> frozenset[str]:
        copies, sources = self._files.copies(), self._files.sources()
        return frozenset([each.name for each in copies] + [each.name for each in sources])

    def _pages(self, path: str, params: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], str]:
        """All items, and the token that asks for the changes since then."""
        asked, items = dict(params), list[Mapping[str, Any]]()
        for _ in range(_MOST_PAGES):
            answer = self._client.call("GET", path, asked)
            items += [each for each in answer.get("items") or () if isinstance(each, dict)]
            if not answer.get("nextPageToken"):
                return items, str(answer.get("nextSyncToken") or "")
            asked["pageToken"] = str(answer["nextPageToken"])
        return items, ""

    def _midnight(self, day: date) -> datetime:
        return instant(datetime(day.year, day.month, day.day), self._zone)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        self._paths.calendars.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._paths.locks.mkdir(exist_ok=True)
        with self._lock.held():
            yield

    def _known(self) -> dict[str, _Synced]:
        try:
            rows = json.loads(OsDisk().read(self._sync_file, SizeLimit.STATE))["calendars"]
            return {row["id"]: _Synced(**row) for row in rows}
        except (OSError, ValueError, TypeError, KeyError):
            # All is read again; the file holds nothing that Google does not have.
            return {}

    def _keep(self, known: Mapping[str, _Synced]) -> None:
        if not known:
            remove_durably(OsDisk(), self._sync_file)
            return
        rows = {"version": 1, "calendars": [asdict(each) for each in known.values()]}
        data = f"{json.dumps(rows, indent=2)}\n".encode()
        write_atomically(OsDisk(), self._sync_file, data, PRIVATE)


def _is_enough(synced: _Synced, now: datetime) -> bool:
    """Whether changes are enough. A clock that was set back asks for all."""
    age = now.date() - date.fromisoformat(synced.read_on) if synced.read_on else _WHOLE_AFTER
    return bool(synced.token) and abs(age) < _WHOLE_AFTER


def _origin(calendar_id: str) -> str:
    return "Google" if calendar_id == PRIMARY else f"Google, {calendar_id}"


def _problem(failed: OllimError, calendar_id: str) -> str:
    if isinstance(failed, GoogleRefused) and failed.status == 404:
        return (
            f"Google has no calendar {calendar_id}. `ollim-bot cal calendars` shows their ids, and "
            "`ollim-bot config set google_calendars` takes those to read."
        )
    return str(failed)


def _events(calendar_id: str) -> str:
    return f"/calendar/v3/calendars/{quote(calendar_id, safe='')}/events"
