"""Moments in words.

moment = iso | [day] time | time day | day part | "in" length | length "from now"
iso    = 2026-12-24T18:00 [:00] [Z | +01:00]     without an offset: on the clocks here

A weekday, a date without a year and a time without a day mean the next ones to come. A date in
numbers (`24.12.`, `12/24`) has one reading, or is refused.

A time with two readings (`9`, `9:30`) means the one that lies in the part of the day, if a part is
named: `tonight at 8` is 20:00. Otherwise it means the one of the 24-hour clock, if that is from 7
to 12 and the first of the two to come: `tomorrow at 9` is 9:00. Everything else is refused:
`tomorrow at 3`, and `at 9` when it is 10:00.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

from ollim_bot.domain.moments import MONTHS, WEEKDAYS, duration_in_words, instant, later
from ollim_bot.domain.phrases import durations
from ollim_bot.domain.phrases.dates import (
    DAY_MONTH,
    IN_PART,
    MIDNIGHT,
    MONTH_DAY,
    PASSED,
    TWO_NUMBERS,
    WEEKDAY,
    WRONG_WEEKDAY,
    YEAR,
    ClockTime,
    Day,
    PartOfDay,
    read_day,
    read_time,
    readings,
    weekday_dates,
)
from ollim_bot.domain.phrases.durations import (
    LENGTH_CHANGES,
    Unclear,
    changed,
    normalized,
    reason,
    respelled,
    suggestions,
)

_DAYTIME = range(7, 13)

_ISO = (
    rf"(?P<wall>{YEAR}-[0-9]{{2}}-[0-9]{{2}}[t ][0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}})?)(?:\.0+)?"
    r" ?(?P<offset>z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)

_DAY_EXAMPLES = ("tomorrow", "fri", "2026-11-20")
_EXAMPLES = ("tomorrow 9am", "in 20 minutes", "friday 18:00")
_NO_TIME = "has no time of day"
_TWO_WAYS = "can be read two ways"
_NOT_UNDERSTOOD = "is not understood"
_NOT_EXACT = (
    r".*\b(?:soon|later|asap|eventually|some|sometime|someday|around|about|few|couple|while|bit"
    r"|next|week|weekend|month|year|before|after|by)\b.*"
)
_REASONS = (
    (rf".*\bnext {WEEKDAY}\b.*|(?:.*[^0-9:])?[0-9]+[/.][0-9]+.*|.*\bhalf [a-z]+", _TWO_WAYS),
    (r".*(?:\b(?:and|or|every|each|daily|weekly)\b|;).*", "is not one moment"),
    (r"(?:right )?now|.*\b(?:yesterday|last|ago)\b.*", "does not lie ahead"),
    (_NOT_EXACT, "is not exact"),
    (r"(?:.*(?<!\bat) )?([0-9]{1,2})", r"leaves open what \1 is"),
)
# What people write, and what may be meant by it.
_CHANGES = (
    *LENGTH_CHANGES,
    (r"\b(?!19|20)([0-9]{1,2})(?:[.h]|(?<=\b[0-2][0-9]))([0-5][0-9])\b(?!-)", r"\1:\2"),
    (r"\b([0-9]{1,2})h\b", r"\1:00"),
    (r"\b([0-9]{1,2}):([0-9])\b", r"\1:0\2", r"\1:\g<2>0"),
    (r"\b(1[3-9]|2[0-3])(:[0-5][0-9]) ?[ap]m\b", r"\1\2"),
    (r"\b(1[3-9]|2[0-3]) ?[ap]m\b", r"\1:00"),
    (r"\b24(?::00)?$", "23:59"),
    (r"^later(?: today)?$", "in 1 hour", "in 3 hours"),
    (r"\b(?:sometime|some time) ", ""),
    (r"\b(?:at )?([0-9]{1,2}(?::[0-9]{2})?) ?ish\b", r"at \1"),
    (r"\bhalf (?!past|an?\b)", "half past "),
    (r"(?<![:.0-9])([0-9]{1,2})$", r"at \1"),
    (r"\b(?:3[01]|29)(?=(?:st|th)? )", "30", "28"),
    (r"\b(?:around|about|by|before|after|until|till) ", ""),
    (r"^(?!in )(.*?) (?:and|or) .*$", r"\1"),
    (r"^.* (?:and|or) (?=[a-z]{3})", ""),
    (r"\b(?:every|each) ", ""),
    (r"\b([a-z]+day)s\b", r"\1"),
    (r"^(?:this|the|next)? ?weekend\b", "saturday", "sunday"),
    (r" (?:in the )?(?:morning|afternoon|evening|night)\b", ""),
    (r"^tonight$", "tonight at 9pm", "tonight at 11pm"),
    (r"^(?:today|tonight)\b", "tomorrow"),
    (r"^this (?=morning|afternoon|evening)", "tomorrow "),
    (r"(?<=[0-9a-z])$", " 9am", " 3pm", " 11pm"),
)
_NAMES = (
    *("today", "tomorrow", "tonight", "morning", "afternoon", "evening", "night", "noon"),
    *("midnight", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    *("january", "february", "march", "april", "june", "july", "august", "september", "october"),
    *("november", "december", "minutes", "hours", "days", "weeks", "half", "quarter", "past"),
    *("from", "after", "next", "week", "weekend", "this", "midday", "o'clock", "minute", "hour"),
)


def parse_moment(text: str, now: datetime) -> datetime:
    """The moment that `text` names: to the second, strictly after `now`, in the zone of `now`.

    Raises `BadPhrase` for everything else, and for what lies more than ten years ahead.
    """
    phrase = normalized(text)
    try:
        return _moment(phrase, now)
    except Unclear as unclear:
        raise unclear.about(text, _near(phrase, unclear, now), _EXAMPLES) from None


def moment_to_keep(text: str, now: datetime) -> datetime:
    """As `parse_moment`, but a time of day has no zone, so that it follows the owner's clock.

    A length of time from now and a moment with an offset are instants.
    """
    moment, phrase = parse_moment(text, now), normalized(text)
    iso = re.fullmatch(_ISO, phrase)
    if _from_now(phrase, now) is not None or (iso is not None and iso["offset"]):
        return moment
    wall = moment.replace(tzinfo=None, fold=0)
    is_clear = instant(wall, now.tzinfo or UTC).astimezone(UTC) == moment.astimezone(UTC)
    return wall if is_clear else moment


def parse_day(text: str, today: date) -> date:
    """The day that `text` names, such as `tomorrow`, `fri`, `in 3 days` or `2026-11-20`.

    A weekday and a date without a year mean the next ones to come, today included. Raises
    `BadPhrase` for everything else.
    """
    phrase = normalized(text)
    try:
        return _day_in(phrase, today)
    except Unclear as unclear:
        raise unclear.about(text, unclear.examples, _DAY_EXAMPLES) from None


def _day_in(phrase: str, today: date) -> date:
    seconds = durations.seconds_in(phrase) if phrase.startswith("in ") else None
    if seconds:
        if seconds % durations.DAY or seconds > durations.LONGEST.total_seconds():
            raise Unclear("is not a number of days")
        return today + timedelta(seconds=seconds)
    day = read_day(phrase, today) if phrase else None
    if day is None:
        raise Unclear(reason(phrase, _REASONS) or "is not a day")
    return day.dates[0]


def is_moment(text: str, now: datetime) -> bool:
    """Whether `parse_moment` accepts the text, without the search for what else may be meant."""
    return _right(normalized(text), now) == [normalized(text)]


def _near(phrase: str, unclear: Unclear, now: datetime) -> Sequence[str]:
    return unclear.examples or suggestions(
        phrase, lambda other: _changed(other, unclear.why, now), lambda other: _right(other, now)
    )


def _moment(phrase: str, now: datetime) -> datetime:
    moment = _from_now(phrase, now) or _iso(phrase, now) or _day_and_time(phrase, now)
    if moment is None:
        raise _reason(phrase)
    return _ahead(moment, now).astimezone(now.tzinfo)


def _right(phrase: str, now: datetime) -> Sequence[str]:
    """The phrase if it is a moment, else what is known to be meant by it."""
    try:
        _moment(phrase, now)
    except Unclear as unclear:
        return unclear.examples
    return [phrase]


def _changed(phrase: str, why: str, now: datetime) -> Iterator[str]:
    if durations.seconds_in(phrase):
        yield f"in {phrase}"
        return
    if why in (_NOT_UNDERSTOOD, durations.NO_LENGTH):
        yield from respelled(phrase, _NAMES)
    if why == WRONG_WEEKDAY:
        yield re.sub(rf"\b{WEEKDAY} ", "", phrase, count=1)
    if why == PASSED:
        found = re.search(rf"{DAY_MONTH}(?![a-z])", phrase) or re.search(MONTH_DAY, phrase)
        yield f"{phrase[: found.end()]} {now.year + 1}{phrase[found.end() :]}" if found else ""
    for pattern, dates_of in _DATES:
        if found := re.search(pattern, phrase):
            for day in dates_of(found, now.date()):
                words = f"{WEEKDAYS[day.weekday()]} {day.day} {MONTHS[day.month - 1]}".lower()
                year = "" if day.year == now.year else f" {day.year}"
                yield f"{phrase[: found.start()]}{words}{year}{phrase[found.end() :]}"
    yield from changed(phrase, _CHANGES)


def _months_ahead(found: re.Match[str], today: date) -> Iterator[date]:
    count = int(found["count"]) if (found["count"] or "a").isdigit() else 1
    year, month = divmod(today.year * 12 + today.month - 1 + count, 12)
    with suppress(ValueError):
        yield date(year, month + 1, today.day)


def _last_of_month(_: re.Match[str], today: date) -> Iterator[date]:
    yield (today.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)


_DATES: tuple[tuple[str, Callable[[re.Match[str], date], Iterable[date]]], ...] = (
    (rf"\bnext {WEEKDAY}\b", lambda found, today: weekday_dates(found, today + timedelta(days=1))),
    (r"\bnext week\b", lambda _, today: (today + timedelta(days=7),)),
    (r"\b(?:(?:at|by) )?(?:the )?end of (?:the|this) month\b", _last_of_month),
    (r"^(?:in (?P<count>an?|[0-9]{1,2})|next) months?\b", _months_ahead),
    (TWO_NUMBERS, lambda found, today: (dates[0] for dates in readings(found, today))),
)


def _from_now(phrase: str, now: datetime) -> datetime | None:
    words = phrase.removesuffix(" from now")
    if phrase.startswith("in the ") or (words == phrase and not phrase.startswith("in ")):
        return None
    return later(now.astimezone(UTC), durations.length_of(words))


def _iso(phrase: str, now: datetime) -> datetime | None:
    found = re.fullmatch(_ISO, phrase)
    if not found:
        return None
    try:
        wall = datetime.fromisoformat(f"{found['wall']}{found['offset'] or ''}".upper())
    except ValueError:
        raise Unclear("does not exist") from None
    return _instant(wall, now)


def _day_and_time(phrase: str, now: datetime) -> datetime | None:
    for day_words, time_words in _arrangements(phrase):
        time = read_time(time_words)
        if time or not time_words:
            day = read_day(day_words, now.date())
            if day:
                return _meant(day, time or _usual_time(day, now), now)
    return None


def _arrangements(phrase: str) -> Iterator[tuple[str, str]]:
    """Every way to cut the phrase into the words of a day and those of a time."""
    found = re.fullmatch(rf"(?P<rest>.+) (?P<end>{IN_PART})", phrase)
    words = (found["rest"] if found else phrase).split()
    end = found["end"] if found else ""
    for cut in range(len(words)):
        first, second = " ".join(words[:cut]), " ".join(words[cut:])
        yield f"{first} {end}".strip(), second
        yield f"{second} {end}".strip(), first


def _usual_time(day: Day, now: datetime) -> ClockTime:
    if day.part is None or day.words.startswith("at "):
        raise Unclear(_NO_TIME)
    if day.words.startswith("in the ") and now.hour in day.part.hours:
        part = day.words.removeprefix("in the ")
        today = [f"today {now.hour + 1}:00"] if now.hour < 23 else []
        raise Unclear(_TWO_WAYS, f"tomorrow {part}", *today)
    return ClockTime((day.part.usual,))


def _meant(day: Day, time: ClockTime, now: datetime) -> datetime:
    hours = _hours_within(day.part, time) if day.part else time.hours
    if hours == (MIDNIGHT,) and day.words:
        _refuse_two_midnights(day, now)
    early, *late = (_next(day, time, hour, now) for hour in hours)
    if late and (time.is_open or not _reads_one_way(hours[0], early, late[0], now)):
        clock = f"{hours[0] % 12 or 12}" + (f":{time.minute:02}" if time.minute else "")
        halves = {"am": late[0], "pm": early} if hours[0] == 12 else {"am": early, "pm": late[0]}
        ahead = (half for half, moment in halves.items() if moment > now)
        raise Unclear(_TWO_WAYS, *(f"{day.words} {clock}{half}".strip() for half in ahead))
    return early


def _hours_within(part: PartOfDay, time: ClockTime) -> list[int]:
    hours = [hour for hour in time.hours if hour in part.hours]
    if not hours:
        raise Unclear("names a time outside that part of the day")
    return hours


def _refuse_two_midnights(day: Day, now: datetime) -> None:
    """The midnight of a day can be its start or its end, unless the start is over."""
    if _next(day, ClockTime((0,)), 0, now) > now:
        raise Unclear(_TWO_WAYS, f"{day.words} 00:00", f"{day.words} 23:59")


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
        raise Unclear(why)
    if moment - now > durations.LONGEST:
        raise Unclear("is more than 10 years ahead")
    return moment


def _reason(phrase: str) -> Unclear:
    if durations.seconds_in(phrase):
        return Unclear("is a length of time")
    return Unclear(reason(phrase, _REASONS) or _NOT_UNDERSTOOD)
