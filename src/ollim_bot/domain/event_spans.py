"""When an event is to begin and end, read from words."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from ollim_bot.domain.moments import instant
from ollim_bot.domain.phrases.durations import parse_duration
from ollim_bot.domain.phrases.moment import parse_day, parse_moment
from ollim_bot.errors import BadPhrase, WrongInput

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
    written = _written_out(text.strip(), now)
    if written is not None:
        return written
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
    try:
        return _later(begins, parse_duration(text))
    except BadPhrase:
        pass
    # A time alone is the next one after the start.
    side = read_side(text, begins if _CLOCK.fullmatch(text) else now)
    if not isinstance(side, datetime):
        raise WrongInput(f"--end: {text!r} has no time of day. Right: 15:00, or 1h.")
    return side


def _later(moment: datetime, length: timedelta) -> datetime:
    return (moment.astimezone(UTC) + length).astimezone(moment.tzinfo)


def _written_out(text: str, now: datetime) -> date | None:
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        try:
            return date.fromisoformat(text)
        except ValueError:
            return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return instant(moment, now.tzinfo or UTC)
