"""Events of the owner's calendar: when one is to be, and its deletion."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from ollim_bot.kernel.base.errors import BadPhrase, WrongInput
from ollim_bot.kernel.base.moments import day_words, instant
from ollim_bot.kernel.base.text import literal
from ollim_bot.kernel.values.calendar import CalendarEvent, event_title, time_words
from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card, Color
from ollim_bot.kernel.values.phrases.durations import parse_duration
from ollim_bot.kernel.values.phrases.moment import parse_day, parse_moment
from ollim_bot.kernel.values.taint import Untrusted

EVENT_DELETE = "event_del"

# The data of the two buttons of the question begin with these.
YES, NO = "yes", "no"
EVENT_TEXT = Untrusted("calendar entry", "the title of an event in the owner's calendar")


def question_card(event: CalendarEvent, now: datetime) -> Card:
    return Card(
        "Delete this event?",
        f"{_in_words(event, now)}\nIt cannot be brought back with its guests.",
        color=Color.YELLOW,
        buttons=(
            Button("Keep it", EVENT_DELETE, f"{NO}:{event.id}"),
            Button("Delete", EVENT_DELETE, f"{YES}:{event.id}", ButtonStyle.DANGER),
        ),
    )


def deleted_card(event: CalendarEvent, now: datetime) -> Card:
    return Card("Event deleted", _in_words(event, now))


def kept_card(asked: Card) -> Card:
    return Card("Event kept", asked.description.partition("\n")[0])


def _in_words(event: CalendarEvent, now: datetime) -> str:
    zone = now.tzinfo or UTC
    begins = event.begins(zone).astimezone(zone).date()
    when = f"{day_words(begins, now)}, {time_words(event, now)}"
    # A card shows markdown, and others write titles.
    return f"{literal(event_title(event))}, {when} ({literal(event.calendar)})"


_CLOCK = re.compile(r"\s*(?:at )?\d{1,2}(?:[:.]\d{2})?\s*(?:am|pm)?\s*", re.IGNORECASE)


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
