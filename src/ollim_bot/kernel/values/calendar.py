"""Calendars: single events, the copy of a calendar, and what is on in a span of time.

Everything that shows events reads `CalendarCopy` values only; feeds and Google write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import NamedTuple

from ollim_bot.kernel.base.moments import day_words, instant, midnight, midnight_after, short_clock
from ollim_bot.kernel.base.text import counted, one_line
from ollim_bot.kernel.values.taint import Untrusted

LONGEST_NAME = 40
# A calendar is read again when its copy is older.
FRESH = timedelta(minutes=15)
# Events are shown with the age of a copy that is older.
STALE = timedelta(hours=1)
# A failing calendar is told once, after this time.
TOLD_AFTER = timedelta(days=1)
LONGEST_UPCOMING = 366

NO_TITLE = "(no title)"
_LONGEST_SHOWN = 100

_A_DAY = timedelta(days=1)
_WRITTEN_BY_OTHERS = frozenset({"summary", "location", "description"})
EVENT_DELETE = "event_del"
EVENT_TEXT = Untrusted("calendar entry", "the title of an event in the owner's calendar")


class CalendarEvent(NamedTuple):
    """One instance of an event. `id` is its own among all instances of all calendars.

    `start` and `end` are instants; both are dates if `all_day`. The event is over at `end`: an
    all-day event of one day ends on the day after. Summary, location and description are untrusted
    text. `is_busy` is false for an event that the calendar marks as free time. `is_declined` says
    that the owner does not go.
    """

    id: str
    calendar: str
    summary: str
    start: date
    end: date
    all_day: bool = False
    location: str = ""
    description: str = ""
    is_busy: bool = True
    is_declined: bool = False

    def begins(self, zone: tzinfo) -> datetime:
        return _moment(self.start, zone)

    def ends(self, zone: tzinfo) -> datetime:
        return _moment(self.end, zone)


class CalendarCopy(NamedTuple):
    """The instances of one calendar from the day `first` to the day `last`.

    `origin` says where it comes from, without a secret: `calendar.google.com (hidden)`. `as_of` is
    the last good reading; None if there was none. `problem` says why a later reading failed; the
    events are then those of the last good one. `limits` says which events are not in the copy.
    `zone` is the zone in which times without a zone were read.
    """

    name: str
    origin: str
    events: tuple[CalendarEvent, ...] = ()
    as_of: datetime | None = None
    first: date | None = None
    last: date | None = None
    zone: str = ""
    problem: str = ""
    failing_since: datetime | None = None
    limits: str = ""

    def failed(self, problem: str, now: datetime) -> CalendarCopy:
        """The same events, after a reading that failed."""
        return self._replace(problem=problem, failing_since=self.failing_since or now)

    def is_fresh(self, now: datetime) -> bool:
        """Whether it needs no reading yet. A clock that was set back makes no copy fresh."""
        return self.as_of is not None and abs(_utc(now) - _utc(self.as_of)) < FRESH

    def is_stale(self, now: datetime) -> bool:
        """Whether its events may have changed long since."""
        return self.as_of is None or abs(_utc(now) - _utc(self.as_of)) > STALE

    def is_to_be_told(self, now: datetime) -> bool:
        """Whether it has failed for so long that the owner should know."""
        return self.failing_since is not None and (
            _utc(now) - _utc(self.failing_since) >= TOLD_AFTER
        )


class BusyPeriod(NamedTuple):
    """A time that one calendar marks as busy. It holds no untrusted text."""

    start: datetime
    end: datetime
    calendar: str


def between(
    copies: Iterable[CalendarCopy], first: datetime, last: datetime
) -> tuple[CalendarEvent, ...]:
    """The events that are on between two instants, in time order, in the zone of `first`.

    An event that ends at `first` or begins at `last` is not on.
    """
    zone, start, end = first.tzinfo or UTC, _utc(first), _utc(last)

    def is_on(event: CalendarEvent) -> bool:
        begins, ends = _utc(event.begins(zone)), _utc(event.ends(zone))
        return begins < end and (ends > start or begins >= start)

    events = (event for copy in copies for event in copy.events)
    return _in_order(filter(is_on, events), zone)


def today(copies: Iterable[CalendarCopy], now: datetime) -> tuple[CalendarEvent, ...]:
    """The events of the day of `now`, also those that are over."""
    zone = now.tzinfo or UTC
    return between(copies, midnight(now.date(), zone), midnight_after(now))


def upcoming(copies: Iterable[CalendarCopy], now: datetime, days: int) -> tuple[CalendarEvent, ...]:
    """The events that are on now or begin before this time of day `days` days later."""
    wall = now.replace(tzinfo=None, fold=0) + days * _A_DAY
    return between(copies, now, instant(wall, now.tzinfo or UTC))


def busy_periods(
    copies: Iterable[CalendarCopy], first: datetime, last: datetime
) -> tuple[BusyPeriod, ...]:
    """When the owner is busy, in time order; overlapping events of one calendar are one period.

    All-day events make no period: they say what day it is, not that the owner has no time.
    """
    zone = first.tzinfo or UTC
    periods: list[BusyPeriod] = []
    for copy in copies:
        own: list[BusyPeriod] = []
        for event in between([copy], first, last):
            begin, end = event.begins(zone).astimezone(zone), event.ends(zone).astimezone(zone)
            if event.all_day or not event.is_busy or begin == end:
                continue
            if own and _utc(begin) <= _utc(own[-1].end):
                own[-1] = own[-1]._replace(end=max(own[-1].end, end, key=_utc))
            else:
                own.append(BusyPeriod(begin, end, copy.name))
        periods += own
    return tuple(sorted(periods, key=lambda each: (_utc(each.start), _utc(each.end))))


def find_event(copies: Iterable[CalendarCopy], event_id: str) -> CalendarEvent | None:
    found = (event for copy in copies for event in copy.events if event.id == event_id)
    return next(found, None)


def event_row(event: CalendarEvent, copy: CalendarCopy, zone: tzinfo) -> Mapping[str, object]:
    """The event for programs; `copy` is that of its calendar."""
    return {
        "id": event.id,
        "calendar": event.calendar,
        "summary": event.summary,
        "start": _written(event.start, zone),
        "end": _written(event.end, zone),
        "all_day": event.all_day,
        "location": event.location,
        "description": event.description,
        "as_of": _written(copy.as_of, zone) if copy.as_of else None,
        "problem": copy.problem or None,
    }


def without_text(row: Mapping[str, object]) -> Mapping[str, object]:
    """The row of an event without what others wrote in it, for the agent."""
    return {key: value for key, value in row.items() if key not in _WRITTEN_BY_OTHERS}


def time_words(event: CalendarEvent, now: datetime) -> str:
    """`14:00–15:00`, `all day`, `14:00`, or with days where an event lasts over several."""
    zone = now.tzinfo or UTC
    begin, end = event.begins(zone).astimezone(zone), event.ends(zone).astimezone(zone)
    if event.all_day:
        last = event.end - _A_DAY
        return "all day" if last <= event.start else f"all day until {day_words(last, now)}"
    if end <= begin:
        return short_clock(begin)
    is_midnight = (end.hour, end.minute, end.second) == (0, 0, 0)
    is_one_day = end.date() == begin.date() or (is_midnight and end.date() == begin.date() + _A_DAY)
    day = "" if is_one_day else f"{day_words(end.date(), now)} "
    return f"{short_clock(begin)}–{day}{short_clock(end)}"


def age_words(copy: CalendarCopy, now: datetime) -> str:
    """`as of 9:12`, `as of Mon 16 Nov 9:12`, `never read`."""
    if copy.as_of is None:
        return "never read"
    at = copy.as_of.astimezone(now.tzinfo)
    day = "" if at.date() == now.date() else f"{day_words(at.date(), now)} "
    return f"as of {day}{short_clock(at)}"


def stale_words(copy: CalendarCopy, now: datetime) -> str:
    """What is said of a copy whose events may have changed long since."""
    return f"{one_line(copy.name, _LONGEST_SHOWN)} may have changed: {age_words(copy, now)}"


def next_event(copies: Iterable[CalendarCopy], now: datetime) -> CalendarEvent | None:
    """The next event that has not begun; of a day that has begun, all-day events count."""
    copies = tuple(copies)
    first, last = midnight(now.date(), now.tzinfo or UTC), now + timedelta(days=LONGEST_UPCOMING)
    events = between(copies, first, last)
    coming = (
        each
        for each in events
        if (each.start >= now.date() if each.all_day else _utc(each.begins(UTC)) >= _utc(now))
    )
    return next(coming, None)


def added_words(
    copy: CalendarCopy, now: datetime, quoted: Callable[[str], str] = lambda title: title
) -> str:
    """What is said of a new calendar: `Work is added, with 3 events. …`. Quotes untrusted text.

    `quoted` makes the title of an event safe where it is shown.
    """
    words = f"{copy.name} is added, with {counted(len(copy.events), 'event')}."
    coming = next_event([copy], now)
    if coming is not None:
        when = day_words(coming.begins(now.tzinfo or UTC).astimezone(now.tzinfo).date(), now)
        title = quoted(one_line(coming.summary, _LONGEST_SHOWN)) or NO_TITLE
        words += f" Next: {when}, {time_words(coming, now)}, {title}."
    return f"{words} {copy.limits}".rstrip()


def failing_words(copy: CalendarCopy, now: datetime) -> str:
    """What the owner is told of a calendar that fails for a day."""
    shown = f"shown is what it held {age_words(copy, now)}" if copy.as_of else "nothing is shown"
    return f"The calendar {copy.name} could not be read for a day; {shown}. {copy.problem}"


def name_problem(name: str, taken: Iterable[str] = ()) -> str:
    """What is wrong with the name of a calendar; empty if nothing is."""
    if not name.strip() or name != name.strip():
        return "It needs letters, and no spaces around them"
    if len(name) > LONGEST_NAME:
        return f"It has {len(name)} characters; at most {LONGEST_NAME} are allowed"
    if not name.isprintable():
        return "It has characters that cannot be shown"
    if name.casefold() in {each.casefold() for each in taken}:
        return "There is a calendar of that name already"
    return ""


def free_name(taken: Sequence[str]) -> str:
    """A name for a calendar that the owner gave none: `Calendar`, `Calendar 2`."""
    names = (f"Calendar {number}" if number > 1 else "Calendar" for number in range(1, 1000))
    return next(name for name in names if not name_problem(name, taken))


def _in_order(events: Iterable[CalendarEvent], zone: tzinfo) -> tuple[CalendarEvent, ...]:
    def place(event: CalendarEvent) -> tuple[datetime, bool, datetime, str, str]:
        begins, ends = _utc(event.begins(zone)), _utc(event.ends(zone))
        return begins, not event.all_day, ends, event.calendar, event.id

    return tuple(sorted(events, key=place))


def _moment(start: date, zone: tzinfo) -> datetime:
    """The instant itself, or the beginning of the day."""
    return start if isinstance(start, datetime) else midnight(start, zone)


def _written(moment: date, zone: tzinfo) -> str:
    return (moment.astimezone(zone) if isinstance(moment, datetime) else moment).isoformat()


def _utc(moment: datetime) -> datetime:
    # Python compares two instants of one zone by their wall-clock times.
    return moment.astimezone(UTC)


def event_title(event: CalendarEvent) -> str:
    return one_line(event.summary, 200) or NO_TITLE
