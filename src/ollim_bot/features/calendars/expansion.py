"""Reads the text of a calendar and computes its instances in a window of days.

A calendar is a stranger's text: a few lines can ask for billions of instances. So the program runs
this module as a process of its own, with limits on time and memory (`feeds.py`), and reads one JSON
object from its output.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from hashlib import sha256
from time import process_time
from types import FrameType
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from icalendar import Calendar
from icalendar.prop import vBroken, vDDDLists, vDDDTypes
from recurring_ical_events import CalendarQuery

from ollim_bot.kernel.base.text import counted, shortened
from ollim_bot.kernel.store.calendar_files import copy_json
from ollim_bot.kernel.values.calendar import CalendarCopy, CalendarEvent

# An event of icalendar. The types of its values depend on their names.
_Component = Any

BACK = timedelta(days=60)
AHEAD = timedelta(days=400)
MOST_OF_SERIES = 2000
_A_DAY = timedelta(days=1)
_LONGEST_TITLE = 300
_LONGEST_TEXT = 2000
_ALL_TEXT = 4_000_000
_PROCESS_SECONDS = 30
_AGAIN = 1.0
_PROCESS_BYTES = 1 << 30
_LENGTHS = {
    "SECONDLY": timedelta(seconds=1),
    "MINUTELY": timedelta(minutes=1),
    "HOURLY": timedelta(hours=1),
}
# Our own property of an event that has a `DURATION` rather than an end.
_LENGTH = "X-OLLIM-LENGTH"
_TIMES = ("DTSTART", "DTEND", "RECURRENCE-ID", "EXDATE", "RDATE")
# Whole lines: the text of an event may hold the same words.
_EVENT = re.compile(
    r"^BEGIN:VEVENT *\n(.*?)^END:VEVENT *$", re.MULTILINE | re.DOTALL | re.IGNORECASE
)
_REPEATS = re.compile(r"^(?:RRULE|RDATE|RECURRENCE-ID|DURATION)[;:]", re.MULTILINE | re.IGNORECASE)
_DAYS = re.compile(
    r"^(?:DTSTART|DTEND)(?:;[^:\n]*)?:(\d{4})(\d\d)(\d\d)", re.MULTILINE | re.IGNORECASE
)


class ExpansionLimits(NamedTuple):
    """How many events are kept, and how long computing one series, and all of them, may take."""

    events: int = 5000
    series_seconds: float = 2.0
    all_seconds: float = 10.0


class NoCalendar(Exception):
    """The text is not a calendar; `str()` is a sentence."""


class _TooSlow(BaseException):
    """Not an `Exception`, so that no handler of a library takes it for one of its own."""


_USUAL = ExpansionLimits()


@dataclass(frozen=True, slots=True)
class Window:
    """The days from `first` to `last` around `now`, in `zone`, where times without a zone are."""

    first: date
    last: date
    now: datetime
    zone: ZoneInfo

    @staticmethod
    def around(now: datetime, zone: ZoneInfo) -> Window:
        local = now.astimezone(zone)
        return Window(local.date() - BACK, local.date() + AHEAD, local, zone)

    def at(self, day: date) -> datetime:
        return datetime.combine(day, time(), self.zone)

    def has(self, event: CalendarEvent) -> bool:
        """Whether the event is on at some moment of these days."""
        first, last = self.at(self.first), self.at(self.last + _A_DAY)
        begins, ends = event.begins(self.zone), event.ends(self.zone)
        return begins < last and (ends > first or begins >= first)


@dataclass(slots=True)
class Expansion:
    """The instances in time order, and what is not among them."""

    events: list[CalendarEvent] = field(default_factory=list)
    unreadable: int = 0
    too_often: int = 0
    cut_at: int = 0

    @property
    def limits(self) -> str:
        sentences = []
        if self.unreadable:
            verb = "was" if self.unreadable == 1 else "were"
            sentences.append(f"{counted(self.unreadable, 'event')} {verb} not understood.")
        if self.too_often:
            verb = "repeats" if self.too_often == 1 else "repeat"
            sentences.append(f"{counted(self.too_often, 'event')} {verb} too often to be all kept.")
        if self.cut_at:
            sentences.append(f"Only the {self.cut_at} events nearest to today are kept.")
        return " ".join(sentences)


def expand(
    raw: bytes, calendar: str, window: Window, limits: ExpansionLimits = _USUAL
) -> Expansion:
    """The instances of the calendar named `calendar`. Raises only `NoCalendar`.

    Must run on the main thread, since it interrupts a series that takes too long.
    """

    def begins(event: CalendarEvent) -> datetime:
        return event.begins(window.zone).astimezone(UTC)

    found, seen = Expansion(), set[str]()
    parsed = _parsed(raw, window)
    owners = frozenset(_one(each, "X-WR-CALNAME").strip().lower() for each in parsed)
    waiting = sorted(_series(parsed, window, found), key=_repeats)
    deadline = process_time() + limits.all_seconds
    # Series that take long wait for all others, so that a stranger's cannot use up their time.
    for seconds in (limits.series_seconds / 8, limits.series_seconds):
        slow = []
        for series in waiting:
            try:
                left = min(seconds, deadline - process_time())
                instances = _instances(series, window, found, left)
            except _TooSlow:
                slow.append(series)
                continue
            events = (_event(each, calendar, owners, found) for each in instances)
            for event in events:
                if event is not None and window.has(event):
                    own, number = event.id, 1
                    while own in seen:
                        number += 1
                        own = f"{event.id}-{number}"
                    seen.add(own)
                    found.events.append(event._replace(id=own))
        waiting = slow
    found.too_often += len(waiting)
    found.events.sort(key=lambda event: (begins(event), event.id))
    if len(found.events) > limits.events:
        found.cut_at = limits.events
        found.events.sort(key=lambda event: abs(begins(event) - window.now))
        found.events = sorted(found.events[: limits.events], key=begins)
    # Leave so much text that the copy can always be read again.
    longest = _ALL_TEXT // max(1, len(found.events))
    found.events = [
        event._replace(description=shortened(event.description, longest)) for event in found.events
    ]
    return found


def main() -> None:
    """Read the name, the zone and the moment from the arguments, the text from standard input."""
    name, zone, now = sys.argv[1:]
    limits = {resource.RLIMIT_CPU: _PROCESS_SECONDS, resource.RLIMIT_AS: _PROCESS_BYTES}
    for limit, most in limits.items():
        with suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))
    window = Window.around(datetime.fromisoformat(now), ZoneInfo(zone))
    try:
        found = expand(sys.stdin.buffer.read(), name, window)
    except NoCalendar as wrong:
        sys.stdout.write(json.dumps({"problem": str(wrong)}))
        return
    copy = CalendarCopy(
        name, "", (*found.events,), first=window.first, last=window.last, limits=found.limits
    )
    sys.stdout.write(json.dumps(copy_json(copy)))


def _parsed(raw: bytes, window: Window) -> list[_Component]:
    """The calendars, without single events far from the window: those are most, and slow."""
    is_wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = raw.decode("latin-1")
    for encoding in ("utf-16",) if is_wide else ("cp1252", "utf-8-sig"):
        with suppress(UnicodeDecodeError):
            text = raw.decode(encoding)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "BEGIN:VCALENDAR" not in text.upper():
        is_page = "<html" in text[:2000].lower()
        raise NoCalendar(
            "It holds a web page, not a calendar." if is_page else "It holds no calendar."
        )
    if "END:VCALENDAR" not in text.upper():
        raise NoCalendar("The calendar is cut off before its end.")
    near = _EVENT.sub(lambda event: event[0] if _may_be_on(event[1], window) else "", text)
    try:
        found = Calendar.from_ical(near, multiple=True)
    except Exception:  # noqa: BLE001 - a stranger's text may cause any failure
        raise NoCalendar("The calendar cannot be understood.") from None
    return [each for each in found if each.name == "VCALENDAR"]


def _may_be_on(event: str, window: Window) -> bool:
    days = ["".join(found) for found in _DAYS.findall(event)]
    if not days or _REPEATS.search(event):
        return True
    first, last = (f"{day:%Y%m%d}" for day in (window.first - _A_DAY, window.last + _A_DAY))
    return max(days) >= first and min(days) <= last


def _series(
    calendars: Iterable[_Component], window: Window, found: Expansion
) -> Iterator[list[_Component]]:
    """The events by their UID: one event, or a repeating one with its exceptions."""
    by_uid: dict[str, list[_Component]] = defaultdict(list)
    for calendar in calendars:
        zone = window.zone
        with suppress(Exception):
            zone = ZoneInfo(str(calendar["X-WR-TIMEZONE"]).strip())
        events = [each for each in calendar.subcomponents if each.name == "VEVENT"]
        for number, event in enumerate(events):
            try:
                mended = _mended(event, zone)
            except Exception:  # noqa: BLE001 - a stranger's text may cause any failure
                found.unreadable += 1
                continue
            by_uid[str(event.get("UID", f"without {number}"))].append(mended)
    yield from by_uid.values()


def _mended(event: _Component, zone: tzinfo) -> _Component:
    """The event with a zone at each time, and without values that contradict each other."""
    for name in _TIMES:
        values = [each for each in _values(event, name) if not isinstance(each, vBroken)]
        event.pop(name, None)
        if values:
            event[name] = [_with_zone(each, zone) for each in values]
    for name in ("DTSTART", "DTEND", "RECURRENCE-ID"):
        if name in event:
            event[name] = event[name][0]
    start, end = event["DTSTART"].dt, event.pop("DTEND", None)
    if end is not None and _is_later(end.dt, start):
        event["DTEND"] = end
    length = event.pop("DURATION", None)
    if "DTEND" not in event:
        length = timedelta() if length is None or isinstance(length, vBroken) else length.dt
        if isinstance(start, datetime):
            event[_LENGTH] = max(length, timedelta())
        else:
            event[_LENGTH] = max(timedelta(days=length.days), _A_DAY)
        event["DTEND"] = vDDDTypes(start + event[_LENGTH])
    if "RRULE" in event:
        event["RRULE"] = _values(event, "RRULE")
    return event


def _values(event: _Component, name: str) -> list[Any]:
    value = event.get(name, [])
    return value if isinstance(value, list) else [value]


def _with_zone(value: Any, zone: tzinfo) -> Any:
    """The value with `zone` at each time that has none."""
    return _changed(value, lambda at: at if at.tzinfo else at.replace(tzinfo=zone))


def _changed(value: Any, change: Callable[[datetime], datetime]) -> Any:
    """The value with each of its times changed; days and lengths stay."""

    def part(given: Any) -> Any:
        if isinstance(given, tuple):
            return tuple(map(part, given))
        return change(given) if isinstance(given, datetime) else given

    if isinstance(value, vDDDLists):
        return vDDDLists([part(each.dt) for each in value.dts])
    made = vDDDTypes(part(value.dt))
    if "RANGE" in value.params:
        made.params["RANGE"] = value.params["RANGE"]
    return made


def _is_later(end: date, start: date) -> bool:
    if isinstance(end, datetime) is not isinstance(start, datetime):
        return False
    if isinstance(end, datetime) and isinstance(start, datetime):
        return end.astimezone(UTC) > start.astimezone(UTC)
    return end > start


def _repeats(series: Sequence[_Component]) -> bool:
    return len(series) > 1 or bool({"RRULE", "RDATE", "EXDATE"} & series[0].keys())


def _instances(
    series: Sequence[_Component], window: Window, found: Expansion, seconds: float
) -> list[_Component]:
    """Raises `_TooSlow` after so many seconds."""
    if not _repeats(series):
        return list(series)
    # The zone in which the series repeats; None for one of whole days.
    ordered = sorted(series, key=lambda event: "RECURRENCE-ID" in event)
    start = ordered[0]["DTSTART"].dt
    zone = (start.tzinfo if isinstance(start, datetime) else None) or window.zone
    first, last = window.at(window.first), window.at(window.last + _A_DAY)
    try:
        # The shortest step of rules that repeat within a day; None if there is none.
        rules = (rule for event in series for rule in event.get("RRULE", ()))
        lengths = [
            _LENGTHS[step] * max(1, int(next(iter(rule.get("INTERVAL", ())), 1)))
            for rule in rules
            if (step := str(next(iter(rule.get("FREQ", ())), "")).upper()) in _LENGTHS
        ]
        length = min(*lengths, _A_DAY) if lengths else None
        is_narrow = length is not None and window.now + MOST_OF_SERIES * length < last
        if length is not None and is_narrow:
            first, last = window.now, window.now + MOST_OF_SERIES * length
        with _time_limit(seconds):
            instances = _computed(series, zone, first, last)
    except Exception:  # noqa: BLE001 - a stranger's text may cause any failure
        found.unreadable += 1
        return []
    if is_narrow or len(instances) > MOST_OF_SERIES:
        found.too_often += 1
        instances.sort(key=lambda each: abs(_day(each["DTSTART"].dt) - window.now.date()))
    return instances[:MOST_OF_SERIES]


def _computed(
    series: Iterable[_Component], zone: tzinfo, first: datetime, last: datetime
) -> list[_Component]:
    """The instances of a series, computed on the clocks of its zone.

    The library takes an instance for another one if the time of the one in UTC is that of the other
    on its clocks, so it is given times without a zone.
    """
    calendar = Calendar()
    calendar.subcomponents = [_on_clocks(event, zone) for event in series]
    _name_moved_days(calendar.subcomponents)
    begin, end = (each.astimezone(zone).replace(tzinfo=None) for each in (first, last))
    instances: list[_Component] = CalendarQuery(calendar, components=("VEVENT",)).between(
        begin, end
    )
    for instance in instances:
        for name in ("DTSTART", "DTEND", "RECURRENCE-ID"):
            instance[name] = _with_zone(instance[name], zone)
    return instances


def _on_clocks(event: _Component, zone: tzinfo) -> _Component:
    """The event with its times as the clocks of `zone` show them."""

    def shown(at: datetime) -> datetime:
        return at.astimezone(zone).replace(tzinfo=None) if at.tzinfo else at

    event = event.copy()
    for name in _TIMES:
        if name in event:
            values = [_changed(each, shown) for each in _values(event, name)]
            event[name] = values if name in ("EXDATE", "RDATE") else values[0]
    for rule in event.get("RRULE", ()):
        if "UNTIL" in rule:
            rule["UNTIL"] = [_until(rule["UNTIL"][0], event["DTSTART"].dt, zone)]
    return event


def _until(until: date, start: date, zone: tzinfo) -> date:
    """The end of a rule. A day as the end of a rule with times counts to its end."""
    if not isinstance(start, datetime):
        return _day(until)
    if not isinstance(until, datetime):
        return datetime.combine(until, time(23, 59, 59))
    return until.astimezone(zone).replace(tzinfo=None) if until.tzinfo else until


def _name_moved_days(series: Sequence[_Component]) -> None:
    """Give an exception that names only the day of its instance the time of the series."""
    starts = (each["DTSTART"].dt for each in series if "RECURRENCE-ID" not in each)
    start = next(starts, None)
    for event in series:
        moved = event["RECURRENCE-ID"].dt if "RECURRENCE-ID" in event else None
        if isinstance(start, datetime) and moved and not isinstance(moved, datetime):
            event["RECURRENCE-ID"] = vDDDTypes(datetime.combine(moved, start.time()))


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise `_TooSlow` in the block after so many seconds of computing."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _TooSlow

    if seconds <= 0:
        raise _TooSlow
    former = signal.signal(signal.SIGVTALRM, stop)
    # Repeated, since Python ignores an exception that is raised while it cleans up an object.
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)


def _event(
    instance: _Component, calendar: str, owners: frozenset[str], found: Expansion
) -> CalendarEvent | None:
    """The event; `owners` are the names that the calendars give themselves."""
    if _one(instance, "STATUS").upper() == "CANCELLED":
        return None
    try:
        start, end = _span(instance)
        # An id that an instance keeps when it is moved.
        original = instance.get("RECURRENCE-ID")
        # An exception for all later instances too stands in each of them.
        if original is None or "RANGE" in original.params:
            original = instance["DTSTART"]
        moment = original.dt
        if isinstance(moment, datetime):
            moment = moment.astimezone(UTC)
        key = "\0".join((calendar.casefold(), _one(instance, "UID"), moment.isoformat()))
        return CalendarEvent(
            sha256(key.encode("utf-8", "replace")).hexdigest()[:12],
            calendar,
            shortened(" ".join(_one(instance, "SUMMARY").split()), _LONGEST_TITLE),
            start,
            end,
            not isinstance(start, datetime),
            shortened(" ".join(_one(instance, "LOCATION").split()), _LONGEST_TITLE),
            shortened(_one(instance, "DESCRIPTION").strip(), _LONGEST_TEXT),
            _one(instance, "X-MICROSOFT-CDO-BUSYSTATUS").upper() != "FREE"
            and _one(instance, "TRANSP").upper() != "TRANSPARENT",
            _is_declined(instance, owners),
        )
    except Exception:  # noqa: BLE001 - a stranger's text may cause any failure
        found.unreadable += 1
        return None


def _span(instance: _Component) -> tuple[date, date]:
    """Days, or instants in UTC.

    A time that the clocks skip is one hour later, as RFC 5545 has it; its length stays. Hours of a
    `DURATION` are real hours; the other lengths are those that a clock on the wall shows.
    """
    start, end = instance["DTSTART"].dt, instance["DTEND"].dt
    if not isinstance(start, datetime) or not isinstance(end, datetime):
        return start, max(end, start + _A_DAY)
    begins = start.astimezone(UTC)
    is_skipped = begins.astimezone(start.tzinfo).replace(tzinfo=None) != start.replace(tzinfo=None)
    length = end.replace(tzinfo=None) - start.replace(tzinfo=None)
    if is_skipped and end.tzinfo == start.tzinfo:
        return begins, begins + length
    if length == instance.get(_LENGTH):
        days = timedelta(days=length.days)
        return begins, (start + days).astimezone(UTC) + (length - days)
    return begins, max(end.astimezone(UTC), begins)


def _one(instance: _Component, name: str) -> str:
    value = instance.get(name, "")
    return str(value[0] if isinstance(value, list) else value)


def _is_declined(instance: _Component, owners: frozenset[str]) -> bool:
    """Whether the owner declined; at Google, a calendar is called by its owner's address."""
    return any(
        str(guest).lower().removeprefix("mailto:") in owners
        and str(getattr(guest, "params", {}).get("PARTSTAT", "")).upper() == "DECLINED"
        for guest in _values(instance, "ATTENDEE")
    )


def _day(moment: date) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


if __name__ == "__main__":
    main()
