"""Days and clock times in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from typing import NamedTuple

from ollim_bot.kernel.base.moments import (
    MONTHS,
    WEEKDAYS,
    day_words,
    duration_in_words,
    instant,
    later,
)
from ollim_bot.kernel.values.phrases import durations
from ollim_bot.kernel.values.phrases.durations import (
    LENGTH_CHANGES,
    NUMBERS,
    SMALL_NUMBERS,
    Unclear,
    changed,
    normalized,
    reason,
    respelled,
    suggestions,
)

WRONG_WEEKDAY = "names the wrong weekday"
PASSED = "has passed this year"
# A date that comes again later than this has just passed.
_HALF_A_YEAR = timedelta(days=183)
MIDNIGHT = 24  # the end of a day; its beginning is hour 0


class ClockTime(NamedTuple):
    """A time of day; without am or pm it has two hours, that of the 24-hour clock first.

    `is_open`: nothing but am or pm decides between them, as in `half past seven`.
    """

    hours: tuple[int, ...]
    minute: int = 0
    second: int = 0
    is_open: bool = False


# The hour of `first thing` without quiet hours; with them it would be their end.
FIRST_THING = ClockTime((8,))


def read_time(words: str) -> ClockTime | None:
    """None if the words name no time; raises `Unclear` if they name one that does not exist."""
    for pattern, time_of in _TIME_FORMS:
        if found := re.fullmatch(pattern, words):
            return time_of(found)
    return None


def time_of_day(words: str) -> ClockTime | None:
    """The time that any words name, as in `9`, `at 9` or `9:30pm`; None if they name none."""
    phrase = normalized(words).removeprefix("at ")
    with suppress(Unclear):
        return read_time(f"at {phrase}") or read_time(phrase)
    return None


def _numbers(found: re.Match[str]) -> tuple[int, int, int]:
    """The hour, the minute and the second of a time, as far as they exist."""
    named = found.groupdict()
    if named["hour"] in _NAMED_HOURS:
        return _NAMED_HOURS[named["hour"]], 0, 0
    hour = NUMBERS.get(named["hour"]) or int(named["hour"])
    minute, second = (int(named.get(part) or 0) for part in ("minute", "second"))
    if hour > 23 or max(minute, second) > 59:
        raise _no_such_time()
    return hour, minute, second


def _on_the_clock(found: re.Match[str]) -> ClockTime:
    """`9:30`, `9 o'clock`, `9:30 pm`."""
    (hour, minute, second), half = _numbers(found), found.groupdict().get("half")
    if not half:
        is_open = 1 <= hour <= 12 and found["hour"][0] != "0"
        return ClockTime((hour, hour + 12) if is_open else (hour,), minute, second)
    if not 1 <= hour <= 12:
        raise _no_such_time()
    if half == "pm":
        return ClockTime((hour % 12 + 12,), minute, second)
    exactly_midnight = (hour, minute, second) == (12, 0, 0)
    return ClockTime((MIDNIGHT if exactly_midnight else hour % 12,), minute, second)


def _beside_the_hour(found: re.Match[str]) -> ClockTime:
    """`half past nine`, `twenty past six pm`; in `quarter to nine` the hour is the one before."""
    words, is_before = found["fraction"], found["side"] not in ("past", "after")
    minutes = _FRACTIONS.get(words) or sum(NUMBERS.get(each) or int(each) for each in words.split())
    hour, *_ = _numbers(found)
    is_named = found["hour"] in _NAMED_HOURS
    if not (is_named or 1 <= hour <= 12) or not 1 <= minutes <= 59:
        raise _no_such_time()
    known = (hour,) if is_named else _on_the_clock(found).hours
    hours = tuple((hour - is_before) % 24 for hour in known)
    minute = 60 - minutes if is_before else minutes
    # At seven there is breakfast, or dinner.
    return ClockTime(hours, minute, is_open=hours[0] == 7)


def _in_words(found: re.Match[str]) -> ClockTime:
    """`five thirty`, `ten oh five pm`."""
    minute = sum(NUMBERS.get(word, 0) for word in found["spoken"].split())
    return _on_the_clock(found)._replace(minute=minute)


def _no_such_time() -> Unclear:
    return Unclear("names a time that does not exist")


_FRACTIONS = {"quarter": 15, "half": 30}
_FRACTION = (
    r"(?P<fraction>quarter|half(?= past)|[0-9]{1,2}|twenty five|five|ten|twenty)"
    r"(?: minutes?)? (?P<side>past|after|to|till|before)"
)
_HALF = r"(?: ?(?P<half>am|pm))?"

_NAMED_HOURS = {"noon": 12, "midday": 12, "midnight": MIDNIGHT}
_HOUR = rf"(?P<hour>[0-9]{{1,2}}|{'|'.join(SMALL_NUMBERS[:12])})"
_SPOKEN_HOUR = rf"(?P<hour>{'|'.join(SMALL_NUMBERS[:12])})"
_SPOKEN = (
    rf"(?P<spoken>oh (?:{'|'.join(SMALL_NUMBERS[:9])})|{'|'.join(SMALL_NUMBERS[9:])}"
    rf"|(?:twenty|thirty|forty|fifty)(?: (?:{'|'.join(SMALL_NUMBERS[:9])}))?)"
)
_MINUTE = r":(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?"

_TIME_FORMS: tuple[tuple[str, Callable[[re.Match[str]], ClockTime]], ...] = (
    (rf"(?:at )?{_HOUR}(?:{_MINUTE})? ?(?P<half>am|pm)", _on_the_clock),
    (rf"(?:at )?{_HOUR}{_MINUTE}", _on_the_clock),
    (rf"(?:at )?{_HOUR} o'?clock", _on_the_clock),
    (rf"at {_HOUR}", _on_the_clock),
    (rf"(?:at )?(?:a )?{_FRACTION} {_HOUR}{_HALF}", _beside_the_hour),
    (rf"(?:at )?(?:a )?{_FRACTION} (?P<hour>{'|'.join(_NAMED_HOURS)})", _beside_the_hour),
    (rf"(?:at )?{_SPOKEN_HOUR} {_SPOKEN}{_HALF}", _in_words),
    (
        rf"(?:at )?(?P<hour>{'|'.join(_NAMED_HOURS)})",
        lambda found: ClockTime((_NAMED_HOURS[found["hour"]],)),
    ),
    (r"(?:at )?first thing", lambda _: FIRST_THING),
)


class PartOfDay(NamedTuple):
    """The hour that is meant if none is named, and the hours that fit it."""

    usual: int
    hours: range


PARTS = {
    "morning": PartOfDay(9, range(1, 12)),
    "afternoon": PartOfDay(15, range(12, 19)),
    "evening": PartOfDay(19, range(17, 25)),
    "night": PartOfDay(19, range(17, 25)),
}


_WHOLE_DAY = PartOfDay(9, range(MIDNIGHT))


class Day(NamedTuple):
    """The dates that `words` can mean, the nearest first."""

    words: str
    dates: Sequence[date]
    part: PartOfDay | None = None


def read_day(words: str, today: date) -> Day | None:
    """None if the words name no day; raises `Unclear` if they name one that does not exist.

    No words at all mean any day.
    """
    if not words:
        return Day("", (today, today + timedelta(days=1)))
    phrase = _PARTS_OF_TODAY.get(words, words)
    if found := re.fullmatch(IN_PART, phrase):
        return Day(words, (today, today + timedelta(days=1)), PARTS[found["part"]])
    found = re.fullmatch(rf"(?P<stem>.+?)(?: in the| at)? {_PART}", phrase)
    stem, part = (found["stem"], PARTS[found["part"]]) if found else (phrase, None)
    for pattern, dates_of in _DAY_FORMS:
        if found := re.fullmatch(pattern, stem):
            usual = _WHOLE_DAY if dates_of is _last_of_month else None
            return Day(words, dates_of(found, today), part or usual)
    return None


def _near_day(found: re.Match[str], today: date) -> Sequence[date]:
    return (today + timedelta(days=_NEAR_DAYS[found["name"]]),)


def weekday_dates(found: re.Match[str], today: date) -> Sequence[date]:
    days = (_place(found["weekday"], WEEKDAYS) - today.weekday()) % 7
    return today + timedelta(days=days), today + timedelta(days=days + 7)


def _this_weekday(found: re.Match[str], today: date) -> Sequence[date]:
    return weekday_dates(found, today)[:1]


def _counted_weekday(found: re.Match[str], today: date) -> Sequence[date]:
    """`3 fridays from now`, `friday week`: today is not one of them."""
    count = found.groupdict().get("count") or "two"
    first, _ = weekday_dates(found, today + timedelta(days=1))
    return (first + timedelta(weeks=(NUMBERS.get(count) or int(count)) - 1),)


def _beyond_a_day(found: re.Match[str], today: date) -> Sequence[date]:
    """`a week from tomorrow`, `in 3 days`, `2 weeks on friday`."""
    count, named = found["count"], found.groupdict().get("from")
    number = 1 if count in ("a", "an") else NUMBERS.get(count) or int(count)
    length = timedelta(number * (1 if found["unit"] == "day" else 7))
    day = read_day(named, today) if named else None
    return ((day.dates[0] if day else today) + length,)


def _last_of_month(_: re.Match[str], today: date) -> Sequence[date]:
    return ((today.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1),)


def _day_of_month(found: re.Match[str], today: date) -> Sequence[date]:
    months = (divmod(today.year * 12 + today.month - 1 + ahead, 12) for ahead in range(5))
    dates = _real(((year, month + 1, int(found["day"])) for year, month in months), today)
    return _on_weekday(dates, found.groupdict().get("weekday"))


def _date_without_year(found: re.Match[str], today: date) -> Sequence[date]:
    month, day = _place(found["month"], MONTHS) + 1, int(found["day"])
    # Nine years contain a 29th of February, even around a century without one.
    dates = _real(((today.year + ahead, month, day) for ahead in range(9)), today)
    if dates[0] - today > _HALF_A_YEAR and dates[0].year == today.year + 1:
        raise Unclear(PASSED)
    return _on_weekday(dates[:1], found["weekday"])


def _date_with_year(found: re.Match[str], _today: date) -> Sequence[date]:
    month, day = _place(found["month"], MONTHS) + 1, int(found["day"])
    return _on_weekday(_real([(int(found["year"]), month, day)]), found["weekday"])


def _date_in_numbers(found: re.Match[str], _today: date) -> Sequence[date]:
    return _real([(int(found["year"]), int(found["month"]), int(found["day"]))])


def _date_in_either_order(found: re.Match[str], today: date) -> Sequence[date]:
    """`12/24`: only where one order of day and month makes a date; `3.12.` has the day first."""
    orders = list(readings(found, today))
    if len(orders) > 1 and found["mark"] == "/":
        raise Unclear("can be read two ways")
    return orders[0] if orders else _real([])


def readings(found: re.Match[str], today: date) -> Iterator[Sequence[date]]:
    """The dates for each order of the two numbers of a match of `TWO_NUMBERS`."""
    one, other = int(found["one"]), int(found["other"])
    years = [int(found["year"])] if found["year"] else range(today.year, today.year + 9)
    for day, month in dict.fromkeys([(one, other), (other, one)]):
        with suppress(Unclear):
            since = date.min if found["year"] else today
            yield _real(((year, month, day) for year in years), since)


def _place(name: str, names: Sequence[str]) -> int:
    return names.index(name[:3].title())


def _real(dates: Iterable[tuple[int, int, int]], since: date = date.min) -> Sequence[date]:
    """The dates that exist in the calendar, from `since` on."""
    real = []
    for year, month, day in dates:
        with suppress(ValueError):
            real.append(date(year, month, day))
    real = [day for day in real if day >= since]
    if not real:
        raise Unclear("names a day that does not exist")
    return real


def _on_weekday(dates: Sequence[date], weekday: str | None) -> Sequence[date]:
    """All dates, or only the nearest if its weekday is named too, which must be the right one."""
    if weekday is None:
        return dates
    if dates[0].weekday() != _place(weekday, WEEKDAYS):
        raise Unclear(WRONG_WEEKDAY)
    return dates[:1]


def _feast(found: re.Match[str], today: date) -> Sequence[date]:
    month, day = _FEASTS[found["feast"]]
    return _real(((year, month, day) for year in (today.year, today.year + 1)), today)[:1]


_FEASTS = {
    **dict.fromkeys(("christmas", "christmas day", "xmas"), (12, 25)),
    "christmas eve": (12, 24),
    "new year's eve": (12, 31),
}
_NEAR_DAYS = {"today": 0, "tomorrow": 1, "day after tomorrow": 2}
_PARTS_OF_TODAY = {"tonight": "today night"} | {f"this {part}": f"today {part}" for part in PARTS}

WEEKDAY = (
    r"(?P<weekday>mon(?:day)?|tue(?:s|sday)?|wed(?:s|nesday)?|thu(?:r|rs|rsday)?|fri(?:day)?"
    r"|sat(?:urday)?|sun(?:day)?)"
)
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sep(?:t|tember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
YEAR = r"(?P<year>(?:19|20|21)[0-9]{2})"
_DAY = r"(?:the )?(?P<day>[0-9]{1,2})"
_ORDINAL = r"(?:st|nd|rd|th)"
_COUNT = rf"(?P<count>an?|[0-9]{{1,2}}|{'|'.join(SMALL_NUMBERS[:12])})"
_DAYS_OR_WEEKS = rf"{_COUNT} (?P<unit>day|week)s?"
_FROM_A_DAY = rf"(?:from|on) (?P<from>today|tomorrow|(?:{WEEKDAY.partition('>')[2]})"
_MONTH_END = r"(?:the )?end of (?:the|this) month"
_PART = rf"(?P<part>{'|'.join(PARTS)})"
IN_PART = rf"(?:in the|at(?= night)) {_PART}"
# Two numbers with a single point between them may be a time.
TWO_NUMBERS = (
    r"(?:on )?(?P<one>[0-9]{1,2})(?P<mark>[/.])(?P<other>[0-9]{1,2})"
    rf"(?:(?P=mark){YEAR}|\.(?= |$)|(?<=/[0-9])|(?<=/[0-9][0-9])|(?<=(?:2[4-9]|3[01])\.[0-9]{{2}}))"
)
DAY_MONTH = rf"(?:on )?(?:{WEEKDAY} )?{_DAY}{_ORDINAL}?(?: of)? {_MONTH}"
MONTH_DAY = rf"(?:on )?(?:{WEEKDAY} )?{_MONTH} {_DAY}{_ORDINAL}?"

_DAY_FORMS: tuple[tuple[str, Callable[[re.Match[str], date], Sequence[date]]], ...] = (
    (rf"(?:the )?(?P<name>{'|'.join(_NEAR_DAYS)})", _near_day),
    (rf"(?:on |at )?(?P<feast>{'|'.join(_FEASTS)})", _feast),
    (rf"(?:on )?{WEEKDAY}", weekday_dates),
    (rf"(?:on )?(?:this|the coming|coming) {WEEKDAY}", _this_weekday),
    (rf"(?:in )?{_COUNT} {WEEKDAY}s from (?:now|today)", _counted_weekday),
    (rf"(?:on )?{WEEKDAY} week", _counted_weekday),
    (rf"(?:in )?{_DAYS_OR_WEEKS} {_FROM_A_DAY}", _beyond_a_day),
    (rf"in {_DAYS_OR_WEEKS}", _beyond_a_day),
    (rf"{_DAYS_OR_WEEKS} from now", _beyond_a_day),
    (rf"(?:(?:at|on) )?{_MONTH_END}", _last_of_month),
    (rf"(?:on )?(?:{WEEKDAY} )?{_DAY}{_ORDINAL}", _day_of_month),
    (DAY_MONTH, _date_without_year),
    (MONTH_DAY, _date_without_year),
    (rf"{DAY_MONTH} {YEAR}", _date_with_year),
    (rf"{MONTH_DAY} {YEAR}", _date_with_year),
    (rf"(?:on )?{YEAR}-(?P<month>[0-9]{{2}})-(?P<day>[0-9]{{2}})", _date_in_numbers),
    (TWO_NUMBERS, _date_in_either_order),
)

# Without am or pm, these are hours of the 24-hour clock.
DAYTIME = range(7, 13)

_ISO = (
    rf"(?P<wall>{YEAR}-[0-9]{{2}}-[0-9]{{2}}[t ][0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}})?)(?:\.0+)?"
    r" ?(?P<offset>z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)

_ZONES = {
    "utc": 0,
    "gmt": 0,
    "bst": 1,
    "cet": 1,
    "cest": 2,
    "est": -5,
    "edt": -4,
    "cst": -6,
    "cdt": -5,
    "mst": -7,
    "mdt": -6,
    "pst": -8,
    "pdt": -7,
}

_DAY_EXAMPLES = ("tomorrow", "fri", "2026-11-20")
_EXAMPLES = ("tomorrow 9am", "in 20 minutes", "friday 18:00")
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
        _refuse_zone(phrase, now)
        return _moment(phrase, now)
    except Unclear as unclear:
        near = unclear.examples or suggestions(
            phrase, partial(_changed, why=unclear.why, now=now), partial(_right, now=now)
        )
        raise unclear.about(text, near, _EXAMPLES) from None


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
        seconds = durations.seconds_in(phrase) if phrase.startswith("in ") else None
        if seconds:
            if seconds % durations.DAY or seconds > durations.LONGEST.total_seconds():
                raise Unclear("is not a number of days")
            return today + timedelta(seconds=seconds)
        day = read_day(phrase, today) if phrase else None
        if day is None:
            raise Unclear(reason(phrase, _REASONS) or "is not a day")
        return day.dates[0]
    except Unclear as unclear:
        raise unclear.about(text, unclear.examples, _DAY_EXAMPLES) from None


def is_moment(text: str, now: datetime) -> bool:
    """Whether `parse_moment` accepts the text, without the search for what else may be meant."""
    return _right(normalized(text), now) == [normalized(text)]


def _moment(phrase: str, now: datetime) -> datetime:
    moment = _from_now(phrase, now) or _iso(phrase, now) or _day_and_time(phrase, now)
    if moment is None and (phrase.startswith("in ") or phrase.endswith(" from now")):
        durations.length_of(phrase.removesuffix(" from now"))
    if moment is None and durations.seconds_in(phrase):
        raise Unclear("is a length of time")
    if moment is None:
        raise Unclear(reason(phrase, _REASONS) or _NOT_UNDERSTOOD)
    if moment <= now:
        past = now - moment
        why = f"was {duration_in_words(past)} ago" if past >= timedelta(seconds=1) else "is now"
        raise Unclear(why)
    if moment - now > durations.LONGEST:
        raise Unclear("is more than 10 years ahead")
    return moment.astimezone(now.tzinfo)


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
        if clock := re.fullmatch(r"(1[3-9]|2[0-3])h([0-5][0-9])", phrase):
            yield f"{clock[1]}:{clock[2]}"
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
                words = day_words(day, now).lower()
                yield f"{phrase[: found.start()]}{words}{phrase[found.end() :]}"
    yield from changed(phrase, _CHANGES)


def _months_ahead(found: re.Match[str], today: date) -> Iterator[date]:
    count = int(found["count"]) if (found["count"] or "a").isdigit() else 1
    year, month = divmod(today.year * 12 + today.month - 1 + count, 12)
    with suppress(ValueError):
        yield date(year, month + 1, today.day)


_DATES: tuple[tuple[str, Callable[[re.Match[str], date], Iterable[date]]], ...] = (
    (rf"\bnext {WEEKDAY}\b", lambda found, today: weekday_dates(found, today + timedelta(days=1))),
    (r"\bnext week\b", lambda _, today: (today + timedelta(days=7),)),
    (rf"\b(?:by )?{_MONTH_END}\b", _last_of_month),
    (r"^(?:in (?P<count>an?|[0-9]{1,2})|next) months?\b", _months_ahead),
    (TWO_NUMBERS, lambda found, today: (dates[0] for dates in readings(found, today))),
)


def _refuse_zone(phrase: str, now: datetime) -> None:
    """Another zone is asked about, with the time that it is here."""
    found = re.fullmatch(rf"(.*[0-9 ](?:am |pm )?)({'|'.join(_ZONES)})(.*)", phrase)
    if found is None or re.fullmatch(_ISO, phrase):
        return
    inner = f"{found[1].strip()}{found[3]}"
    there = now.astimezone(timezone(timedelta(hours=_ZONES[found[2]])))
    near = _right(inner, there) or suggestions(
        inner, partial(_changed, why="", now=there), partial(_right, now=there)
    )
    here = (_moment(each, there).astimezone(now.tzinfo) for each in near)
    words = (f"{day_words(each.date(), now).lower()} {each:%H:%M}" for each in here)
    raise Unclear("names another time zone", *words)


def _from_now(phrase: str, now: datetime) -> datetime | None:
    words = phrase.removesuffix(" from now")
    is_length = words != phrase or phrase.startswith("in ")
    if not is_length or durations.seconds_in(words) is None:
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
    for day_part, time_words in _arrangements(phrase):
        time = read_time(time_words)
        is_number = re.fullmatch(_HOUR, time_words) is not None
        if time or is_number or not time_words:
            day = read_day(day_part, now.date())
            if day and day.part and is_number:
                # A bare number is an hour only in a part of the day: `8 tonight`.
                time = read_time(f"at {time_words}")
            if day and (time or not time_words):
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
        raise Unclear("has no time of day")
    if day.words.startswith("in the ") and now.hour in day.part.hours:
        part = day.words.removeprefix("in the ")
        today = [f"today {now.hour + 1}:00"] if now.hour < 23 else []
        raise Unclear(_TWO_WAYS, f"tomorrow {part}", *today)
    return ClockTime((day.part.usual,))


def _meant(day: Day, time: ClockTime, now: datetime) -> datetime:
    hours = [hour for hour in time.hours if day.part is None or hour in day.part.hours]
    if not hours:
        raise Unclear("names a time outside that part of the day")
    # The midnight of a day can be its start or its end, unless the start is over.
    is_midnight = hours == [MIDNIGHT] and day.words and day.part is None
    if is_midnight and _next(day, ClockTime((0,)), 0, now) > now:
        raise Unclear(_TWO_WAYS, f"{day.words} 00:00", f"{day.words} 23:59")
    early, *late = (_next(day, time, hour, now) for hour in hours)
    is_clear = not late or late[0] <= now or (hours[0] in DAYTIME and now < early < late[0])
    if late and (time.is_open or not is_clear):
        clock = f"{hours[0] % 12 or 12}" + (f":{time.minute:02}" if time.minute else "")
        halves = {"am": late[0], "pm": early} if hours[0] == 12 else {"am": early, "pm": late[0]}
        ahead = (half for half, moment in halves.items() if moment > now)
        raise Unclear(_TWO_WAYS, *(f"{day.words} {clock}{half}".strip() for half in ahead))
    return early


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
