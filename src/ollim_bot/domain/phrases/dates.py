"""Days and clock times in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, timedelta
from typing import NamedTuple

from ollim_bot.domain.moments import MONTHS, WEEKDAYS
from ollim_bot.domain.phrases.durations import NUMBERS, SMALL_NUMBERS, Unclear

WRONG_WEEKDAY = "names the wrong weekday"
PASSED = "has passed this year"
# A date that comes again later than this has just passed.
_HALF_A_YEAR = timedelta(days=183)
_BREAKFAST_OR_DINNER = 7
MIDNIGHT = 24  # the end of a day; its beginning is hour 0


class ClockTime(NamedTuple):
    """A time of day; without am or pm it has two hours, that of the 24-hour clock first.

    `is_open`: nothing but am or pm decides between them, as in `half past seven`.
    """

    hours: tuple[int, ...]
    minute: int = 0
    second: int = 0
    is_open: bool = False


def read_time(words: str) -> ClockTime | None:
    """None if the words name no time; raises `Unclear` if they name one that does not exist."""
    for pattern, time_of in _TIME_FORMS:
        if found := re.fullmatch(pattern, words):
            return time_of(found)
    return None


def _with_half(found: re.Match[str]) -> ClockTime:
    hour, minute, second = _hour(found), _sixtieth(found, "minute"), _sixtieth(found, "second")
    if not 1 <= hour <= 12:
        raise _no_such_time()
    if found["half"] == "pm":
        return ClockTime((hour % 12 + 12,), minute, second)
    exactly_midnight = (hour, minute, second) == (12, 0, 0)
    return ClockTime((MIDNIGHT if exactly_midnight else hour % 12,), minute, second)


def _without_half(found: re.Match[str]) -> ClockTime:
    return ClockTime(_readings(found), _sixtieth(found, "minute"), _sixtieth(found, "second"))


def _full_hour(found: re.Match[str]) -> ClockTime:
    return ClockTime(_readings(found))


def _readings(found: re.Match[str]) -> tuple[int, ...]:
    hour = _hour(found)
    if hour > 23:
        raise _no_such_time()
    return (hour, hour + 12) if 1 <= hour <= 12 and found["hour"][0] != "0" else (hour,)


def _beside_the_hour(found: re.Match[str]) -> ClockTime:
    """`half past nine`, `twenty past six pm`; in `quarter to nine` the hour is the one before."""
    minutes = _FRACTIONS.get(found["fraction"]) or _minutes(found["fraction"])
    is_before = found["side"] == "to"
    if not 1 <= _hour(found) <= 12 or not 1 <= minutes <= 59:
        raise _no_such_time()
    hours = _with_half(found).hours if found["half"] else _readings(found)
    hours = tuple((hour - is_before) % 24 for hour in hours)
    minute = 60 - minutes if is_before else minutes
    return ClockTime(hours, minute, is_open=hours[0] == _BREAKFAST_OR_DINNER)


def _minutes(words: str) -> int:
    return int(words) if words.isdigit() else sum(NUMBERS[word] for word in words.split())


def _hour(found: re.Match[str]) -> int:
    return NUMBERS.get(found["hour"]) or int(found["hour"])


def _sixtieth(found: re.Match[str], name: str) -> int:
    number = int(found[name] or 0)
    if number > 59:
        raise _no_such_time()
    return number


def _no_such_time() -> Unclear:
    return Unclear("names a time that does not exist")


_FRACTIONS = {"quarter": 15, "half": 30}
_FRACTION = (
    r"(?P<fraction>quarter|half(?= past)|[0-9]{1,2}|twenty five|five|ten|twenty)"
    r"(?: minutes?)? (?P<side>past|to)"
)
_HALF = r"(?: ?(?P<half>am|pm))?"

_HOUR = rf"(?P<hour>[0-9]{{1,2}}|{'|'.join(SMALL_NUMBERS[:12])})"
_MINUTE = r":(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?"

_TIME_FORMS: tuple[tuple[str, Callable[[re.Match[str]], ClockTime]], ...] = (
    (rf"(?:at )?{_HOUR}(?:{_MINUTE})? ?(?P<half>am|pm)", _with_half),
    (rf"(?:at )?{_HOUR}{_MINUTE}", _without_half),
    (rf"(?:at )?{_HOUR} o'?clock", _full_hour),
    (rf"at {_HOUR}", _full_hour),
    (rf"(?:at )?(?:a )?{_FRACTION} {_HOUR}{_HALF}(?P<minute>)(?P<second>)", _beside_the_hour),
    (r"(?:at )?(?:noon|midday)", lambda _: ClockTime((12,))),
    (r"(?:at )?midnight", lambda _: ClockTime((MIDNIGHT,))),
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
            return Day(words, dates_of(found, today), part)
    return None


def _near_day(found: re.Match[str], today: date) -> Sequence[date]:
    return (today + timedelta(days=_NEAR_DAYS[found["name"]]),)


def weekday_dates(found: re.Match[str], today: date) -> Sequence[date]:
    days = (_place(found["weekday"], WEEKDAYS) - today.weekday()) % 7
    return today + timedelta(days=days), today + timedelta(days=days + 7)


def _this_weekday(found: re.Match[str], today: date) -> Sequence[date]:
    return weekday_dates(found, today)[:1]


def _day_of_month(found: re.Match[str], today: date) -> Sequence[date]:
    months = (divmod(today.year * 12 + today.month - 1 + ahead, 12) for ahead in range(5))
    return _real(((year, month + 1, int(found["day"])) for year, month in months), today)


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
    (rf"(?:on )?{WEEKDAY}", weekday_dates),
    (rf"(?:on )?(?:this|the coming|coming) {WEEKDAY}", _this_weekday),
    (rf"(?:on )?{_DAY}{_ORDINAL}", _day_of_month),
    (DAY_MONTH, _date_without_year),
    (MONTH_DAY, _date_without_year),
    (rf"{DAY_MONTH} {YEAR}", _date_with_year),
    (rf"{MONTH_DAY} {YEAR}", _date_with_year),
    (rf"(?:on )?{YEAR}-(?P<month>[0-9]{{2}})-(?P<day>[0-9]{{2}})", _date_in_numbers),
    (TWO_NUMBERS, _date_in_either_order),
)
