"""Moments in words.

moment = iso | [day] time | time day | day part | "in" length | length "from now"
iso    = 2026-12-24T18:00 [:00] [Z | +01:00]     without an offset: on the clocks here

A weekday, a date without a year and a time without a day mean the next ones to come.

A time with two readings (`9`, `9:30`) means the one that lies in the part of the day, if a part is
named: `tonight at 8` is 20:00. Otherwise it means the one of the 24-hour clock, if that is from 7
to 12 and the first of the two to come: `tomorrow at 9` is 9:00. Everything else is refused:
`tomorrow at 3`, and `at 9` when it is 10:00.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from ollim_bot.domain.moments import duration_in_words, instant, later
from ollim_bot.domain.phrases import durations
from ollim_bot.domain.phrases.dates import (
    MIDNIGHT,
    WEEKDAY,
    YEAR,
    ClockTime,
    Day,
    PartOfDay,
    read_day,
    read_time,
)
from ollim_bot.domain.phrases.durations import KnownMistake, Unclear, known_mistake, normalized

_DAYTIME = range(7, 13)

_ISO = (
    rf"(?P<wall>{YEAR}-[0-9]{{2}}-[0-9]{{2}}[t ][0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}})?)(?:\.0+)?"
    r" ?(?P<offset>z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)

_EXAMPLES = ("tomorrow 9am", "in 20 minutes", "24 dec 18:00")
_KNOWN_MISTAKES = (
    KnownMistake(
        rf".*\b(?:next|this|coming) {WEEKDAY}\b.*",
        "can be read two ways",
        (r"\g<weekday> 9am", "27 nov 9am"),
    ),
    KnownMistake(
        r"(?:.*[^0-9:])?[0-9]+[/.][0-9]+.*",
        "can be read two ways",
        ("24 dec 18:00", "2026-12-24 18:00", "tomorrow 9:30"),
    ),
    KnownMistake(
        r".*(?:\b(?:and|or|every|each|daily|weekly)\b|;).*", "is not one moment", _EXAMPLES
    ),
    KnownMistake(r"(?:right )?now|.*\b(?:yesterday|last|ago)\b.*", "does not lie ahead", _EXAMPLES),
    KnownMistake(
        r".*\b(?:soon|later|asap|eventually|some|sometime|someday|around|about|few|couple|while"
        r"|bit|next|week|weekend|month|year|before|after|by)\b.*",
        "is not exact",
        _EXAMPLES,
    ),
    KnownMistake(
        r"(?:.* )?(?P<number>[0-9]{1,2})",
        r"leaves open what \g<number> is",
        ("tomorrow at 9", "tomorrow 9am", "tomorrow 21:00"),
    ),
)


def parse_moment(text: str, now: datetime) -> datetime:
    """The moment that `text` names: to the second, strictly after `now`, in the zone of `now`.

    Raises `BadPhrase` for everything else, and for what lies more than ten years ahead.
    """
    phrase = normalized(text)
    try:
        moment = _from_now(phrase, now) or _iso(phrase, now) or _day_and_time(phrase, now)
        if moment is None:
            raise _reason(phrase)
        return _ahead(moment, now).astimezone(now.tzinfo)
    except Unclear as unclear:
        raise unclear.about(text) from None


def _from_now(phrase: str, now: datetime) -> datetime | None:
    words = phrase.removesuffix(" from now")
    if words == phrase and not phrase.startswith("in "):
        return None
    try:
        length = durations.length_of(words)
    except Unclear as unclear:
        raise Unclear(unclear.why, *(f"in {example}" for example in unclear.examples)) from None
    return later(now.astimezone(UTC), length)


def _iso(phrase: str, now: datetime) -> datetime | None:
    found = re.fullmatch(_ISO, phrase)
    if not found:
        return None
    try:
        wall = datetime.fromisoformat(f"{found['wall']}{found['offset'] or ''}".upper())
    except ValueError:
        raise Unclear("does not exist", "2026-12-24 18:00", "2026-12-24T18:00:00Z") from None
    return _instant(wall, now)


def _day_and_time(phrase: str, now: datetime) -> datetime | None:
    for day_words, time_words in _arrangements(phrase):
        time = read_time(time_words)
        if time or not time_words:
            day = read_day(day_words, now.date())
            if day:
                return _meant(day, time or _usual_time(day), now)
    return None


def _arrangements(phrase: str) -> Iterator[tuple[str, str]]:
    """Every way to cut the phrase into the words of a day and those of a time."""
    words = phrase.split()
    for cut in range(len(words)):
        first, second = " ".join(words[:cut]), " ".join(words[cut:])
        yield first, second
        yield second, first


def _usual_time(day: Day) -> ClockTime:
    if day.part:
        return ClockTime((day.part.usual,))
    raise Unclear("has no time of day", f"{day.words} 3pm", f"{day.words} 21:30")


def _meant(day: Day, time: ClockTime, now: datetime) -> datetime:
    hours = _hours_within(day.part, time) if day.part else time.hours
    if hours == (MIDNIGHT,) and day.words:
        _refuse_two_midnights(day, now)
    early, *late = (_next(day, time, hour, now) for hour in hours)
    if late and not _reads_one_way(hours[0], early, late[0], now):
        clock = f"{hours[0] % 12 or 12}" + (f":{time.minute:02}" if time.minute else "")
        raise Unclear("can be read two ways", f"{clock}am", f"{clock}pm")
    return early


def _hours_within(part: PartOfDay, time: ClockTime) -> list[int]:
    hours = [hour for hour in time.hours if hour in part.hours]
    if not hours:
        examples = "tomorrow morning at 8", "tomorrow evening at 8"
        raise Unclear("names a time outside that part of the day", *examples)
    return hours


def _refuse_two_midnights(day: Day, now: datetime) -> None:
    """The midnight of a day can be its start or its end, unless the start is over."""
    if _next(day, ClockTime((0,)), 0, now) > now:
        raise Unclear("can be read two ways", f"{day.words} 00:00", f"{day.words} 23:59")


def _reads_one_way(hour: int, early: datetime, late: datetime, now: datetime) -> bool:
    both_over = late <= now
    return both_over or (hour in _DAYTIME and now < early < late)


def _next(day: Day, time: ClockTime, hour: int, now: datetime) -> datetime:
    """The first of the moments that lies ahead, else the last of them."""
    since_midnight = timedelta(hours=hour, minutes=time.minute, seconds=time.second)
    midnights = (datetime(date.year, date.month, date.day) for date in day.dates)
    moments = [_instant(midnight + since_midnight, now) for midnight in midnights]
    return next((moment for moment in moments if moment > now), moments[-1])


def _instant(wall: datetime, now: datetime) -> datetime:
    if now.tzinfo is None:
        raise ValueError("`now` must have a zone")
    # In UTC: Python compares two moments of one zone by their wall-clock times.
    return instant(wall, now.tzinfo).astimezone(UTC)


def _ahead(moment: datetime, now: datetime) -> datetime:
    if moment <= now:
        past = now - moment
        why = f"was {duration_in_words(past)} ago" if past >= timedelta(seconds=1) else "is now"
        raise Unclear(why, *_EXAMPLES)
    if moment - now > durations.LONGEST:
        raise Unclear("is more than 10 years ahead", *_EXAMPLES)
    return moment


def _reason(phrase: str) -> Unclear:
    if durations.seconds_in(phrase):
        return Unclear("is a length of time", f"in {phrase}", "20 minutes from now")
    return known_mistake(phrase, _KNOWN_MISTAKES) or Unclear("is not understood", *_EXAMPLES)
