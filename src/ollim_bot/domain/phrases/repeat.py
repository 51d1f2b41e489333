"""Repeats in words that no cron line can hold, as the text of a rhythm.

repeat = "every" count "days" | "every" count "weeks on" weekday | "every other" weekday
       | "every" count "months on the" day | place weekday "of the month" | "last day of the month"
       | length "after it is done"
end    = "until" day | number "times" | "for" length | "starting" day

The first day is the next one that fits; `starting` names a later one.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from ollim_bot.domain.cron import Cron
from ollim_bot.domain.phrases.durations import NUMBERS, Unclear
from ollim_bot.domain.phrases.moment import read_day
from ollim_bot.domain.repeats import MOST_TIMES, AfterDone, DayRule, Repeat, days_text

_DAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY = r"(?P<weekday>" + "|".join(f"{name[:3]}(?:{name[3:]})?" for name in _DAY_NAMES) + ")s?"
_COUNTS = {"other": 2, "second": 2, "third": 3, "fourth": 4} | NUMBERS
_COUNT = rf"(?P<count>\d{{1,3}}(?:st|nd|rd|th)?|{'|'.join(_COUNTS)})"
_PLACES = {"1st": "first", "2nd": "second", "3rd": "third", "4th": "fourth"}
_PLACE = rf"(?P<place>first|second|third|fourth|last|{'|'.join(_PLACES)})"
_MONTHLY = r"(?:of|in) (?:the|every|each|a) month"
_DATE = r"(?:on )?the (?P<date>\d{1,2})(?:st|nd|rd|th)"
_LATE_DATE = r"the (?P<date>29|30|31)(?:st|nd|rd|th)"
_FORTNIGHT = r"(?P<fortnight>(?:every|each|a) fortnight|fortnightly|biweekly)"
_DONE = r"(?:it is|it's|i have|i've|i am|i'm|being|it was|i was)?\s*(?:done|finished|taken)(?: it)?"
_LENGTHS = {"day": 1, "week": 7, "month": 30}
_ENDS = re.compile(
    r",? (?:(?:until|till|through) (?P<until>.+?)|(?P<times>\d+|[a-z]+) times"
    r"|for (?:the next )?(?P<length>\d+|[a-z]+) (?P<unit>day|week|month)s?"
    r"|(?:starting|beginning|from)(?: on)? (?P<start>.+?))"
    r"(?=,? (?:until|till|starting|beginning|for|at)\b|$)"
)
# Every form has one of these words; most phrases that are tried have none.
_HINT = re.compile(r"every |each |month|fortnight|biweekly| after ")
_LAST_DATE = 28
_LONGEST = 999

Times = Callable[[str], tuple[time, ...] | None]


@dataclass(frozen=True, slots=True)
class Ends:
    """When a repeat begins, and when it is over."""

    start: date | None = None
    until: date | None = None
    times: int | None = None


def split_ends(phrase: str, today: date) -> tuple[str, Ends]:
    """The phrase without its ends, and the ends. Words that are none stay where they are."""
    known: dict[str, date | int] = {}
    for found in reversed([*_ENDS.finditer(phrase)]):
        if end := _end(found, today):
            phrase = f"{phrase[: found.start()]}{phrase[found.end() :]}".strip()
            known |= end
    return phrase, Ends(**known)  # type: ignore[arg-type]


def _end(found: re.Match[str], today: date) -> dict[str, date | int]:
    if found["times"]:
        times = _number(found["times"])
        if times is not None and not 1 <= times <= MOST_TIMES:
            raise Unclear("does not come so often", "every day at 9am 10 times")
        return {} if times is None else {"times": times}
    if found["length"]:
        count = 1 if found["length"] == "a" else _number(found["length"])
        if count is not None and count > _LONGEST:
            raise Unclear("lasts too long", "every day at 9am for 2 weeks")
        length = timedelta((count or 0) * _LENGTHS[found["unit"]])
        return {"until": today + length} if count else {}
    day = read_day(found["until"] or found["start"], today)
    if day is None or day.part is not None:
        return {}
    return {"until" if found["until"] else "start": day.dates[0]}


def read_repeat(phrase: str, ends: Ends, now: datetime, read_times: Times) -> str | None:
    """The text of the repeat that a normalized phrase names; None if it names none, or `Unclear`.

    `read_times` understands the rest of the phrase, with `every day` in place of the repeat.
    """
    for form, rule_of in _FORMS if _HINT.search(phrase) else ():
        found = form.search(phrase)
        if found is None:
            continue
        rule, first = rule_of(found)
        try:
            times = read_times(f"{phrase[: found.start()]}every day{phrase[found.end() :]}".strip())
        except Unclear as unclear:
            examples = (each.replace("every day", found[0]) for each in unclear.examples)
            raise Unclear(unclear.why, *examples) from None
        if times is None:
            return None
        start = _first_day(rule, first, times, ends.start, now)
        if isinstance(rule, int):
            if len(times) != 1 or ends.until or ends.times:
                raise Unclear(
                    "follows its answer, so it has one time of day and no end",
                    f"{days_text(rule)} after it is done at {times[0]:%-H:%M}",
                )
            return AfterDone(rule, times[0], start).text
        return Repeat(rule, times, start, ends.until, ends.times).text
    return None


def bounded(cron: str, ends: Ends, now: datetime) -> str:
    """The text of a rhythm of a cron line that has an end."""
    if ends == Ends():
        return cron
    line, zone, start, times = Cron.parse(cron), now.tzinfo or UTC, ends.start, ends.times
    if times is not None and start is None:
        # The times are counted from the beginning of the first day: those that have passed too.
        first = line.next(now, zone)
        start = first.date()
        midnight = datetime(start.year, start.month, start.day, tzinfo=zone)
        times += sum(1 for _ in line.between(midnight, first, zone))
    return Repeat(line, (), start, ends.until, times).text


def _first_day(
    rule: DayRule | int,
    first: int | None,
    times: tuple[time, ...],
    start: date | None,
    now: datetime,
) -> date:
    """The first day that fits: `first` is a weekday, or a day of the month."""
    is_over = start is None and all(at <= now.time() for at in times)
    day = start or now.date() + timedelta(days=is_over)
    if first is None or isinstance(rule, int):
        return day
    if rule.unit == "week":
        return day + timedelta((first - day.weekday()) % 7)
    # A date that the month of the first moment does not have is counted from one that lies behind.
    behind = -rule.count * 12 if first > _LAST_DATE and start is None else 0
    months = (divmod(day.year * 12 + day.month - 1 + ahead, 12) for ahead in range(behind, 12))
    known = [
        date(year, month + 1, first)
        for year, month in months
        if first <= monthrange(year, month + 1)[1]
    ]
    ahead = next(each for each in known if each >= day)
    is_next = ahead.month == day.month or first <= _LAST_DATE or start is not None
    return ahead if is_next or rule.count > 1 else known[known.index(ahead) - 1]


def _counted(found: re.Match[str]) -> int:
    count = _number(found["count"])
    if count is None or not 1 <= count <= 999:
        raise Unclear("is not a rhythm that I know", "every 2 weeks on monday at 9am")
    return count


def _number(word: str) -> int | None:
    digits = re.sub(r"(?:st|nd|rd|th)$", "", word)
    return int(digits) if digits.isdecimal() else _COUNTS.get(word)


def _weekday(found: re.Match[str]) -> int:
    return [name[:3] for name in _DAY_NAMES].index(found["weekday"][:3])


def _days(found: re.Match[str]) -> tuple[DayRule, None]:
    return DayRule(_counted(found), "day"), None


def _weeks(found: re.Match[str]) -> tuple[DayRule, int]:
    count = 2 if found.groupdict().get("fortnight") else _counted(found)
    return DayRule(count, "week"), _weekday(found)


def _weeks_without_day(found: re.Match[str]) -> tuple[DayRule, int]:
    count = 2 if found["fortnight"] else _counted(found)
    raise Unclear("does not say on which day", f"every {count} weeks on monday at 9am")


def _months(found: re.Match[str]) -> tuple[DayRule, int]:
    if not 1 <= int(found["date"]) <= 31:
        raise Unclear("names a day that no month has", "every month on the 28th at 9am")
    count = _counted(found) if found.groupdict().get("count") else 1
    return DayRule(count, "month"), int(found["date"])


def _months_without_day(found: re.Match[str]) -> tuple[DayRule, int]:
    raise Unclear("does not say on which day", f"every {_counted(found)} months on the 1st at 9am")


def _weekday_of_month(found: re.Match[str]) -> tuple[DayRule, None]:
    place = _PLACES.get(found["place"], found["place"])
    return DayRule.parse(f"{place} {_DAY_NAMES[_weekday(found)]} of the month"), None


def _last_day(_: re.Match[str]) -> tuple[DayRule, None]:
    return DayRule.parse("last day of the month"), None


def _after_done(found: re.Match[str]) -> tuple[int, None]:
    return _counted(found) * _LENGTHS[found["unit"]], None


# A date that every month has is left to cron.
_FORMS = tuple(
    (re.compile(rf"\b(?:{form})(?![a-z])"), rule_of)
    for form, rule_of in (
        (rf"(?:every )?{_COUNT} (?P<unit>day|week)s? after {_DONE}", _after_done),
        (rf"(?:on )?(?:the |every |each )?{_PLACE} {_WEEKDAY} {_MONTHLY}", _weekday_of_month),
        (rf"(?:on )?(?:the |every )?last day {_MONTHLY}", _last_day),
        (r"(?:at )?(?:the )?end of (?:every|each) month", _last_day),
        (rf"(?:every|each) {_COUNT} months? {_DATE}", _months),
        (rf"(?:(?:every|each) month|monthly) (?:on )?{_LATE_DATE}", _months),
        (rf"(?:on )?{_LATE_DATE} (?:of )?(?:every|each) month", _months),
        (rf"(?:every|each) {_COUNT} months?", _months_without_day),
        (rf"(?:every|each) {_COUNT} weeks? on (?:an? )?{_WEEKDAY}", _weeks),
        (rf"{_FORTNIGHT} on (?:an? )?{_WEEKDAY}", _weeks),
        (rf"(?:every|each) {_COUNT} {_WEEKDAY}", _weeks),
        (rf"(?:every|each) {_COUNT} weeks?|{_FORTNIGHT}", _weeks_without_day),
        (rf"(?:every|each) {_COUNT} days?", _days),
    )
)
