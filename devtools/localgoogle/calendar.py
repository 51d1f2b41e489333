"""Calendar of the local Google."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import count
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from devtools.localgoogle.protocol import (
    ApiCall,
    ApiRoute,
    GoogleError,
    Json,
    flag,
    invalid,
    not_found,
    page,
    require_fields,
)

_LIST = ("https://www.googleapis.com/auth/calendar.calendarlist.readonly",)
_EVENTS = ("https://www.googleapis.com/auth/calendar.events",)
_FIELDS = frozenset(
    {
        *("attendees", "colorId", "description", "end", "eventType", "extendedProperties", "id"),
        *("location", "originalStartTime", "recurrence", "recurringEventId", "reminders"),
        *("source", "start", "status", "summary", "transparency", "visibility"),
    }
)
_TIME_FIELDS = frozenset({"date", "dateTime", "timeZone"})
_LISTING = frozenset(
    {
        *("maxResults", "orderBy", "pageToken", "q", "showDeleted", "singleEvents", "syncToken"),
        *("timeMax", "timeMin", "timeZone", "updatedMin"),
    }
)
# Google refuses these beside a sync token.
_NOT_WITH_TOKEN = ("orderBy", "q", "timeMax", "timeMin", "updatedMin")
_MOST_INSTANCES = 800
_RULE = re.compile(r"RRULE:FREQ=(DAILY|WEEKLY)(?:;INTERVAL=(\d+))?(?:;COUNT=(\d+))?")
_ID = re.compile(r"[a-v0-9]{5,1024}")


@dataclass
class _Calendar:
    """`changes` counts each change, so that a sync token can name one."""

    id: str
    summary: str
    zone: str
    role: str = "owner"
    events: dict[str, Json] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    changes: int = 0


class CalendarApi:
    """The calendars of the account; the first is its primary one.

    Repeats are days or weeks in a plain rule, which is expanded by this class itself.
    """

    def __init__(self) -> None:
        self._numbers = count(1)
        self.calendars: dict[str, _Calendar] = {}
        self._oldest_token = 0
        self.add_calendar("primary", "owner@example.com", "Europe/Berlin")

    def add_calendar(
        self, calendar_id: str, summary: str, zone: str = "Europe/Berlin", role: str = "owner"
    ) -> None:
        self.calendars[calendar_id] = _Calendar(calendar_id, summary, zone, role)

    def add(self, calendar_id: str = "primary", **fields: object) -> Json:
        """An event that the owner or a guest made elsewhere."""
        return self._insert(self.calendars[calendar_id], fields, datetime.now(UTC))

    def change(self, event_id: str, calendar_id: str = "primary", **fields: object) -> Json:
        """The event, or one instance of it, is changed elsewhere."""
        calendar = self.calendars[calendar_id]
        return self._changed(calendar, self._event(calendar, event_id), fields, datetime.now(UTC))

    def expire_sync_tokens(self) -> None:
        """Every token given out so far is answered with 410."""
        self._oldest_token = 1 + max(each.changes for each in self.calendars.values())
        for calendar in self.calendars.values():
            calendar.changes = max(calendar.changes, self._oldest_token)

    def routes(self) -> Sequence[ApiRoute]:
        lists = "/calendar/v3/users/me/calendarList"
        some = "/calendar/v3/calendars/{calendar}/events"
        one = f"{some}/{{event}}"
        paging = frozenset({"maxResults", "minAccessRole", "pageToken", "showHidden"})
        sending = frozenset({"sendUpdates"})
        return (
            ApiRoute("GET", lists, _LIST, self._calendars, paging),
            ApiRoute("GET", f"{lists}/{{calendar}}", _LIST, self._calendar_entry),
            ApiRoute("GET", some, _EVENTS, self._list, _LISTING),
            ApiRoute("POST", some, _EVENTS, self._post, sending, has_body=True),
            ApiRoute("GET", one, _EVENTS, self._get),
            ApiRoute("PATCH", one, _EVENTS, self._patch, sending, has_body=True),
            ApiRoute("DELETE", one, _EVENTS, self._delete, sending),
        )

    def _calendars(self, call: ApiCall) -> Json:
        items = [self._entry(each, call) for each in self.calendars.values()]
        return {"kind": "calendar#calendarList", **page(call, items, 100, 250)}

    def _calendar_entry(self, call: ApiCall) -> Json:
        return self._entry(self._calendar(call), call)

    def _entry(self, calendar: _Calendar, call: ApiCall) -> Json:
        is_primary = calendar.id == "primary"
        entry: Json = {
            "kind": "calendar#calendarListEntry",
            "id": call.account if is_primary else calendar.id,
            "summary": call.account if is_primary else calendar.summary,
            "timeZone": calendar.zone,
            "accessRole": calendar.role,
        }
        return {**entry, "primary": True} if is_primary else entry

    def _list(self, call: ApiCall) -> Json:
        calendar = self._calendar(call)
        is_single = flag(call, "singleEvents")
        token = call.param("syncToken")
        since = self._since(call, calendar, token) if token else -1
        items = [
            _answered(each)
            for key, event in calendar.events.items()
            if calendar.changed[key] > since
            for each in (self._instances(calendar, event, call) if is_single else [event])
            if token or flag(call, "showDeleted") or each["status"] != "cancelled"
        ]
        if call.param("orderBy") == "startTime":
            items.sort(key=lambda each: str(each["start"]))
        answer = page(call, items, 250, 2500)
        if "nextPageToken" not in answer:
            answer["nextSyncToken"] = f"sync-{calendar.changes}"
        return {
            "kind": "calendar#events",
            "summary": calendar.summary,
            "timeZone": calendar.zone,
            "accessRole": calendar.role,
            **answer,
        }

    def _since(self, call: ApiCall, calendar: _Calendar, token: str) -> int:
        wrong = [name for name in _NOT_WITH_TOKEN if name in call.params]
        if wrong:
            raise invalid(f"Sync token cannot be used together with {wrong[0]}.")
        known = re.fullmatch(r"sync-(\d+)", token)
        if known is None or not self._oldest_token <= int(known[1]) <= calendar.changes:
            raise GoogleError(
                410, "fullSyncRequired", "Sync token is no longer valid, a full sync is required."
            )
        return int(known[1])

    def _instances(self, calendar: _Calendar, event: Json, call: ApiCall) -> Iterator[Json]:
        first, last = _bound(call, "timeMin"), _bound(call, "timeMax")
        if "recurrence" not in event or event["status"] == "cancelled":
            if _is_within(event, first, last, calendar.zone):
                yield event
            return
        for instance in _expanded(event, calendar.zone):
            is_own = instance["id"] in calendar.events
            if not is_own and _is_within(instance, first, last, calendar.zone):
                yield instance

    def _get(self, call: ApiCall) -> Json:
        calendar = self._calendar(call)
        return _answered(self._event(calendar, call.parts["event"]))

    def _post(self, call: ApiCall) -> Json:
        return self._insert(self._writable(call), call.body, call.now)

    def _patch(self, call: ApiCall) -> Json:
        calendar = self._writable(call)
        event = self._event(calendar, call.parts["event"])
        if event["status"] == "cancelled" and "status" not in call.body:
            raise not_found()
        asked = call.headers.get("If-Match")
        if asked is not None and asked != event["etag"]:
            raise GoogleError(412, "conditionNotMet", "Precondition Failed")
        return self._changed(calendar, event, call.body, call.now)

    def _delete(self, call: ApiCall) -> None:
        calendar = self._writable(call)
        event = self._event(calendar, call.parts["event"])
        if event["status"] == "cancelled":
            raise GoogleError(410, "deleted", "Resource has been deleted")
        self._changed(calendar, event, {"status": "cancelled"}, call.now)

    def _insert(self, calendar: _Calendar, body: Mapping[str, object], now: datetime) -> Json:
        number = next(self._numbers)
        event_id = str(body.get("id") or f"ev{number:024}")
        if not _ID.fullmatch(event_id):
            raise invalid("Invalid resource id value.")
        if event_id in calendar.events:
            raise GoogleError(409, "duplicate", "The requested identifier already exists.")
        if "start" not in body or "end" not in body:
            raise GoogleError(400, "required", "Missing end time.")
        event: Json = {
            "kind": "calendar#event",
            "id": event_id,
            "status": "confirmed",
            "created": _stamp(now),
            "iCalUID": f"{event_id}@google.com",
        }
        return self._changed(calendar, event, body, now)

    def _changed(
        self, calendar: _Calendar, event: Json, body: Mapping[str, object], now: datetime
    ) -> Json:
        require_fields(body, _FIELDS)
        changed = _patched(event, body)
        _check_times(changed, calendar.zone)
        calendar.changes += 1
        changed["updated"] = _stamp(now)
        changed["etag"] = f'"{calendar.changes}"'
        calendar.events[changed["id"]] = changed
        calendar.changed[changed["id"]] = calendar.changes
        return _answered(changed)

    def _calendar(self, call: ApiCall) -> _Calendar:
        name = call.parts["calendar"]
        found = self.calendars.get("primary" if name == call.account else name)
        if found is None:
            raise not_found()
        return found

    def _writable(self, call: ApiCall) -> _Calendar:
        calendar = self._calendar(call)
        if calendar.role not in ("owner", "writer"):
            raise GoogleError(
                403, "requiredAccessLevel", "You need to have writer access to this calendar."
            )
        return calendar

    def _event(self, calendar: _Calendar, event_id: str) -> Json:
        if event_id in calendar.events:
            return calendar.events[event_id]
        master = calendar.events.get(event_id.rpartition("_")[0])
        for instance in _expanded(master, calendar.zone) if master else ():
            if instance["id"] == event_id:
                return instance
        raise not_found()


def _patched(resource: Mapping[str, object], body: Mapping[str, object]) -> Json:
    """Google merges what is inside a field too; null removes it."""
    patched = dict(resource)
    for name, value in body.items():
        old = patched.get(name)
        if isinstance(value, dict):
            patched[name] = _patched(old if isinstance(old, dict) else {}, value)
        elif value is None:
            patched.pop(name, None)
        else:
            patched[name] = value
    return patched


def _answered(event: Json) -> Json:
    """The event as Google answers it: of a cancelled one, little is left."""
    if event["status"] != "cancelled":
        return dict(event)
    kept = ("kind", "etag", "id", "status", "recurringEventId", "originalStartTime")
    return {name: event[name] for name in kept if name in event}


def _expanded(event: Json, zone: str) -> Iterator[Json]:
    if "recurrence" not in event or event["status"] == "cancelled":
        return
    (rule,) = event["recurrence"]
    found = _RULE.fullmatch(rule)
    if found is None:
        raise invalid("Invalid recurrence rule.")
    step = timedelta(days=7 if found[1] == "WEEKLY" else 1) * int(found[2] or 1)
    for number in range(min(int(found[3] or _MOST_INSTANCES), _MOST_INSTANCES)):
        start, end = (_shifted(event[side], number * step, zone) for side in ("start", "end"))
        name = re.sub("[-:]", "", start.get("date") or _utc_stamp(start, zone))
        instance = {key: value for key, value in event.items() if key != "recurrence"}
        yield {
            **instance,
            "id": f"{event['id']}_{name}",
            "recurringEventId": event["id"],
            "originalStartTime": start,
            "start": start,
            "end": end,
        }


def _shifted(side: Json, by: timedelta, zone: str) -> Json:
    """The same time of day, so many days later."""
    if "date" in side:
        return {"date": (date.fromisoformat(side["date"]) + by).isoformat()}
    local = _instant(side, zone).astimezone(ZoneInfo(side.get("timeZone") or zone))
    return {**side, "dateTime": (local + by).isoformat()}


def _utc_stamp(side: Json, zone: str) -> str:
    return f"{_instant(side, zone).astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _instant(side: Json, zone: str) -> datetime:
    try:
        home = ZoneInfo(side.get("timeZone") or zone)
        if "date" in side:
            return datetime.combine(date.fromisoformat(side["date"]), time(), home)
        moment = datetime.fromisoformat(side["dateTime"])
    except (ValueError, TypeError, KeyError, ZoneInfoNotFoundError):
        raise invalid("Invalid value for start or end.") from None
    if moment.tzinfo is None and "timeZone" not in side:
        raise invalid("Missing time zone definition for start time.")
    return moment if moment.tzinfo else moment.replace(tzinfo=home)


def _check_times(event: Json, zone: str) -> None:
    if event["status"] == "cancelled":
        return
    start, end = event["start"], event["end"]
    for side in (start, end):
        if not isinstance(side, dict):
            raise invalid("Invalid value for start or end.")
        require_fields({name: value for name, value in side.items() if value}, _TIME_FIELDS)
    if ("date" in start) != ("date" in end):
        raise invalid("Invalid start time: start and end must both be date or dateTime.")
    if _instant(start, zone) > _instant(end, zone):
        raise GoogleError(400, "timeRangeEmpty", "The specified time range is empty.")


def _bound(call: ApiCall, name: str) -> datetime | None:
    text = call.param(name)
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise invalid(f"Invalid value for {name}: it needs an offset.")
    return moment


def _is_within(event: Json, first: datetime | None, last: datetime | None, zone: str) -> bool:
    if event["status"] == "cancelled":
        return True
    start, end = _instant(event["start"], zone), _instant(event["end"], zone)
    return (first is None or end > first) and (last is None or start < last)


def _stamp(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.000Z"
