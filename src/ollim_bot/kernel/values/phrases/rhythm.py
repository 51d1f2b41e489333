"""Rhythms in words, as cron lines or as the text of a repeat.

rhythm = days [part] times | times days | "every" [number] ("minutes" | "hours")
days   = every day | every weekday | every monday and friday | mondays | every month on the 1st
times  = at 9 | at 8am and 8pm

The last form leaves out the quiet hours, if they are given, and may end with `between 9 and 17` or
`day and night`. Repeats that no cron line can hold, and the ends of a rhythm, are in `repeat`.

An hour without am or pm means the 24-hour clock from 7 to 12, and is refused otherwise, unless a
part of the day decides it.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.phrases.durations import NUMBERS, Unclear, normalized
from ollim_bot.kernel.values.phrases.moment import (
    DAYTIME,
    MIDNIGHT,
    PARTS,
    ClockTime,
    read_day,
    read_time,
    time_of_day,
)
from ollim_bot.kernel.values.quiet import QuietHours
from ollim_bot.kernel.values.repeats import (
    MOST_TIMES,
    REPEATS,
    AfterDone,
    DayRule,
    Repeat,
    days_text,
)

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY = r"(?P<weekday>" + "|".join(f"{name[:3]}(?:{name[3:]})?" for name in _WEEKDAYS) + ")s?"
_COUNTS = {"other": 2, "second": 2, "third": 3, "fourth": 4} | NUMBERS
_COUNT = rf"(?P<count>\d{{1,3}}(?:st|nd|rd|th)?|{'|'.join(_COUNTS)})"
_PLACES = {"1st": "first", "2nd": "second", "3rd": "third", "4th": "fourth"}
_PLACE = rf"(?P<place>first|second|third|fourth|last|{'|'.join(_PLACES)})"
_MONTHLY = r"(?:of|in) (?:the|every|each|a) month"
_MONTH_DATE = r"(?:on )?the (?P<date>\d{1,2})(?:st|nd|rd|th)"
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

_MOST_LISTED = 24

Times = Callable[[str], tuple[time, ...] | None]


class _Listed(Unclear):
    """A rhythm of every day that no cron line can hold, but a list of times."""

    def __init__(self, times: tuple[time, ...]) -> None:
        super().__init__("has times with different minutes", "every day at 8am")
        self.times = times


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
    return [name[:3] for name in _WEEKDAYS].index(found["weekday"][:3])


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
    return DayRule.parse(f"{place} {_WEEKDAYS[_weekday(found)]} of the month"), None


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
        (rf"(?:every|each) {_COUNT} months? {_MONTH_DATE}", _months),
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

RHYTHM_EXAMPLES = ("every day at 8am", "every monday and thursday at 18:30", "every 2 hours")
_DAY_NAMES = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_DAY = r"(?:" + "|".join(f"{name[:3]}(?:{name[3:]})?" for name in _DAY_NAMES) + "|tues|weds|thurs?)"
_DAYS_NAMED = "(?:" + "|".join(f"{name}s" for name in _DAY_NAMES) + ")"
_SEPARATOR = r"(?: and |, and |, | )(?:every |each |on )?"
_DATE = r"the (?P<{}>[0-9]{{1,2}})(?:st|nd|rd|th)"
_DAYS = re.compile(
    r"\b(?:(?P<daily>(?:every|each)(?: single)? day|everyday|daily)"
    r"|(?P<weekdays>(?:every|each) (?:weekday|workday|working day)|(?:on )?weekdays)"
    r"|(?P<weekends>(?:every|each) weekend|(?:on )?weekends)"
    rf"|(?:every|each) (?P<named>{_DAY}(?:{_SEPARATOR}{_DAY})*)"
    rf"|(?:on )?(?P<plural>{_DAYS_NAMED}(?:{_SEPARATOR}{_DAYS_NAMED})*)"
    rf"|(?:on )?{_DATE.format('first')} (?:of )?(?:every|each) month"
    rf"|(?:(?:every|each) month|monthly) on {_DATE.format('second')}"
    r"|(?:every|each)(?= (?:morning|afternoon|evening|night)\b))(?![a-z])"
)
_PART = re.compile(rf"({'|'.join(PARTS)})\b")
_EXCEPT = re.compile(
    rf"(?:,? (?:except|but not|apart from|other than)(?: for)?(?: on)?"
    rf" (?P<days>(?:the )?weekends?|{_DAY}s?(?:{_SEPARATOR}{_DAY}s?)*))(?![a-z])"
)
_OF_A_WEEK = re.compile(rf"\b(?:every|each|once a) week on (?:an? )?({_DAY})s?(?![a-z])")
_OF_A_MONTH = re.compile(
    r"\b(?:every|each) (?:month on )?(?:the )?(\d+(?:st|nd|rd|th)) of the month"
)
_A_DAY = r"(?:(?:a|each|every|per) day|daily)"
_NO_MOMENT = "does not say when"
# Rhythms that no schedule can hold, or that leave something open, each with the one nearest to it.
_BEYOND = tuple(
    (re.compile(rf"\b(?:{form})(?![a-z])"), nearest, why)
    for form, nearest, why in (
        (rf"(?:twice|2 times|two times) {_A_DAY}", "every day at 8am and 8pm", _NO_MOMENT),
        (rf"(?:3|three) times {_A_DAY}", "every day at 8am and 2pm and 8pm", _NO_MOMENT),
        (r"(?:twice|2 times|two times) (?:a|per) week", "every monday and thursday", _NO_MOMENT),
        (r"(?:once (?:a|per)|every|each) week|weekly", "every monday", _NO_MOMENT),
        (rf"once {_A_DAY}", "every day", _NO_MOMENT),
    )
)
_INTERVAL = re.compile(
    rf"(?:every|each) (?:(?P<count>\d+|{'|'.join(NUMBERS)}) )?(?P<unit>min|hour|hr)(?:ute)?s?"
    r"(?: (?:between|from) (?P<first>\S+(?: [ap]m)?) (?:and|to|until|till) (?P<last>\S+(?: [ap]m)?)"
    r"| (?P<always>day and night))?"
)
_UNTIL_A_TIME = re.compile(r" (?:until|till) (?P<last>[0-9]{1,2}(?::[0-9]{2})? ?(?:am|pm)?)")
_NIGHT = QuietHours.parse("22:00-07:00")
_ALL_DAY_OR_ALWAYS = ("between 8am and 9pm", "day and night")
_SHORTEST_MINUTES = 5
_NOT_KNOWN = "is not a rhythm that I know"
_TWO_WAYS = "can be read two ways"


def parse_rhythm(
    text: str, now: datetime, quiet: QuietHours | None = None, *, spares_night: bool = False
) -> str:
    """The text of the rhythm that `text` names, with or without `every` in front.

    `every 2 hours` leaves out every hour with a moment in the `quiet` hours; without them, it is
    refused if it `spares_night`. Raises `BadPhrase` for everything else.
    """
    phrase = normalized(text)
    try:
        cron = read_rhythm(phrase, now, quiet) or read_rhythm(f"every {phrase}", now, quiet)
        if cron is None:
            raise Unclear(_NOT_KNOWN)
        if spares_night and quiet is None:
            _refuse_night(phrase)
    except Unclear as unclear:
        raise unclear.about(text, unclear.examples, RHYTHM_EXAMPLES) from None
    return cron


def _refuse_night(phrase: str) -> None:
    """Without quiet hours, `every 2 hours` would ring all night: whether it should is asked."""
    every = phrase if phrase.startswith(("every ", "each ")) else f"every {phrase}"
    found = _INTERVAL.match(every)
    if found and found.lastgroup == "unit" and _moments_of(found, _NIGHT) != _moments_of(found):
        ways = (f"{found[0]} {how}{every[found.end() :]}" for how in _ALL_DAY_OR_ALWAYS)
        raise Unclear("would come at night too", *ways)


def _moments_of(every: re.Match[str], quiet: QuietHours | None = None) -> object:
    try:
        return _interval(every, quiet)
    except _Listed as listed:
        return listed.times


def is_repeat(text: str) -> bool:
    """Whether the text of a rhythm is more than a cron line."""
    return text.startswith(REPEATS)


def is_interval(phrase: str) -> bool:
    """Whether a normalized phrase is of the form `every 2 hours`."""
    return _INTERVAL.fullmatch(phrase) is not None


def read_rhythm(phrase: str, now: datetime, quiet: QuietHours | None = None) -> str | None:
    """As `parse_rhythm`, for a normalized phrase; None if it names no rhythm, or `Unclear`."""
    whole = phrase
    phrase, ends = split_ends(phrase, now.date())
    try:
        repeat = read_repeat(phrase, ends, now, _times_of_day)
        if repeat is not None:
            return repeat
        cron = _read_cron(phrase, quiet)
    except _Listed as listed:
        day = DayRule(1, "day")
        start = _first_day(day, None, listed.times, ends.start, now)
        return Repeat(day, listed.times, start, ends.until, ends.times).text
    except Unclear as unclear:
        end = whole.removeprefix(phrase) if whole.startswith(phrase) else ""
        # What follows its answer has no end.
        kept = (each if " after " in each else f"{each}{end}" for each in unclear.examples)
        raise Unclear(unclear.why, *kept) from None
    return None if cron is None else bounded(cron, ends, now)


def _times_of_day(phrase: str) -> tuple[time, ...] | None:
    """The times of a phrase `every day at 8am and 8:30pm`."""
    try:
        minutes, hours, *_ = (_read_cron(phrase, None) or " ").split(" ")
    except _Listed as listed:
        return listed.times
    return tuple(time(int(hour), int(minutes)) for hour in hours.split(",")) if hours else None


def _read_cron(phrase: str, quiet: QuietHours | None) -> str | None:
    if every := _INTERVAL.fullmatch(phrase):
        return _interval(every, quiet)
    every = _INTERVAL.match(phrase)
    if every and (end := _UNTIL_A_TIME.fullmatch(phrase, every.end())):
        raise Unclear("does not say from when", f"{every[0]} between 9am and {end['last']}")
    phrase = _OF_A_MONTH.sub(r"the \1 of every month", _OF_A_WEEK.sub(r"every \1", phrase))
    for form, nearest, why in _BEYOND:
        if form.search(phrase) and (readings := _readings(form.sub(nearest, phrase))):
            raise Unclear(why, *readings)
    left_out = _EXCEPT.search(phrase)
    if left_out:
        phrase = f"{phrase[: left_out.start()]}{phrase[left_out.end() :]}"
    found = _DAYS.search(phrase)
    if found is None:
        return None
    before, behind = phrase[: found.start()].strip(), phrase[found.end() :].strip()
    part = _PART.match(behind)
    behind = behind[part.end() :].strip() if part else behind
    if before and behind:
        return None
    days = f"{found[0]} {part[1]}" if part else found[0]
    times = _times(before or behind, days, part[1] if part else "")
    if times is None:
        return None
    dates = _dates(found, before or behind)
    return f"{times} {_without(left_out['days'], dates) if left_out else dates}"


def _readings(phrase: str) -> Sequence[str]:
    """The phrase if it is a rhythm, else what is known to be meant by it."""
    try:
        return [phrase] if _read_cron(phrase, None) else []
    except Unclear as unclear:
        return unclear.examples


def _without(days: str, dates: str) -> str:
    """The last three fields of the line without some days of the week."""
    if dates not in ("* * *", "* * 1-5"):
        raise Unclear(_NOT_KNOWN)
    named = "saturday sunday" if "weekend" in days else days
    known = range(7) if dates == "* * *" else range(1, 6)
    kept = [day for day in known if _DAY_NAMES[day][:3] not in named]
    is_row = len(kept) > 2 and kept == [*range(kept[0], kept[-1] + 1)]
    return f"* * {f'{kept[0]}-{kept[-1]}' if is_row else ','.join(map(str, kept))}"


def _interval(every: re.Match[str], quiet: QuietHours | None) -> str:
    count = every["count"] or "1"
    number = NUMBERS.get(count) or int(count)
    is_minutes = every["unit"] == "min"
    whole, shortest = (60, _SHORTEST_MINUTES) if is_minutes else (24, 1)
    if not shortest <= number < whole or whole % number:
        _list_times(every, number * (1 if is_minutes else 60), quiet)
        raise Unclear(_NOT_KNOWN, *(_near(number) if is_minutes else ("every 2 hours",)))
    if every["first"]:
        return _within(every, number)
    step = "*" if number == 1 else f"*/{number}"
    minutes, hours = (step, "*") if is_minutes else ("0", step)
    if quiet is not None:
        marks = range(0, 60, number) if is_minutes else (0,)
        pace = 1 if is_minutes else number
        hours = _awake(hours, pace, [time(0, minute) for minute in marks], quiet)
    return f"{minutes} {hours} * * *"


def _within(every: re.Match[str], number: int) -> str:
    """The first two fields of `every 2 hours between 9 and 5`, and the rest."""
    first, last = map(time_of_day, every.group("first", "last"))
    if first is None or last is None:
        raise Unclear(_NOT_KNOWN, "every 2 hours between 9:00 and 17:00")
    begin = first.hours[0]
    if len(first.hours) > 1 and begin not in DAYTIME:
        before, behind = every[0][: every.start("first")], every[0][every.end("first") :]
        clock = every["first"]
        raise Unclear(_TWO_WAYS, *(f"{before}{clock}{half}{behind}" for half in ("am", "pm")))
    end = next((hour for hour in last.hours if hour > begin), MIDNIGHT)
    is_minutes = every["unit"] == "min"
    if end == MIDNIGHT or first.minute != last.minute or (is_minutes and first.minute):
        _list_times(every, number * (1 if is_minutes else 60), None)
        raise Unclear("is a rhythm that I cannot keep yet", "every 2 hours between 9:00 and 17:00")
    if is_minutes:
        return f"*/{number} {begin}-{end - 1} * * *"
    return f"{first.minute} {begin}-{end}{f'/{number}' if number > 1 else ''} * * *"


def _list_times(every: re.Match[str], step: int, quiet: QuietHours | None) -> None:
    """Raise the times of day of an interval that no cron line can hold, if a day can hold them."""
    begin, end = 0, 24 * 60
    if every["first"]:
        first, last = map(time_of_day, every.group("first", "last"))
        is_open = first is not None and len(first.hours) > 1 and first.hours[0] not in DAYTIME
        if first is None or last is None or is_open:
            return
        begin = first.hours[0] * 60 + first.minute
        end = next((each * 60 + last.minute for each in last.hours if each * 60 > begin), 0) + 1
    elif quiet is not None and quiet.end < quiet.start:
        begin, end = (each.hour * 60 + each.minute for each in (quiet.end, quiet.start))
    elif quiet is not None or end % step:
        return
    times = tuple(time(*divmod(each, 60)) for each in range(begin, min(end, 24 * 60), step))
    if step >= _SHORTEST_MINUTES and 1 < len(times) <= _MOST_LISTED:
        raise _Listed(times)


def _near(minutes: int) -> Sequence[str]:
    """The intervals that there are beside it."""
    known = next((each for each in (10, 15, 20, 30) if each >= minutes), None)
    if known:
        return (f"every {known} minutes",)
    return ("every hour",) if minutes <= 60 else ("every hour", "every 2 hours")


def _awake(field: str, pace: int, marks: Sequence[time], quiet: QuietHours) -> str:
    """The field of hours without those that have a moment in the quiet hours.

    It stays as it is if no hour would be left.
    """
    hours = range(0, 24, pace)
    kept = [hour for hour in hours if not any(quiet.has(mark.replace(hour=hour)) for mark in marks)]
    if not kept or len(kept) == len(hours):
        return field
    if len(kept) > 1 and kept == [*range(kept[0], kept[-1] + 1, pace)]:
        return f"{kept[0]}-{kept[-1]}" + (f"/{pace}" if pace > 1 else "")
    return ",".join(map(str, kept))


def _dates(found: re.Match[str], times: str) -> str:
    """The last three fields of the line."""
    date = found["first"] or found["second"]
    if date and not 1 <= int(date) <= 31:
        raise Unclear("names a day that no month has", "every month on the 28th at 9am")
    if date:
        return f"{int(date)} * *"
    if found["weekends"]:
        either = ("every saturday", "every saturday and sunday")
        raise Unclear(_TWO_WAYS, *(f"{each} {times}" for each in either))
    named = found["named"] or found["plural"] or ""
    numbers = [str(place) for place, name in enumerate(_DAY_NAMES) if name[:3] in named]
    return f"* * {'1-5' if found['weekdays'] else ','.join(numbers) or '*'}"


def _times(words: str, days: str, part: str) -> str | None:
    """The first two fields of the line; None if the words are not times."""
    if not words and not part:
        raise Unclear("has no time of day", f"{days} at 8am", f"{days} at 8pm")
    if not words:
        return f"0 {PARTS[part].usual}"
    times = [read_time(each) for each in re.split(r",? and (?=at |[0-9])", words)]
    known = [time for time in times if time is not None]
    if len(known) < len(times) or any(time.second for time in known):
        return None
    hours = [_hour(time, days, part) for time in known]
    if len({time.minute for time in known}) > 1:
        if re.fullmatch(r"(?:every|each)(?: single)? day|everyday|daily", days):
            raise _Listed(
                tuple(
                    sorted(
                        time(hour % 24, at.minute) for hour, at in zip(hours, known, strict=True)
                    )
                )
            )
        raise Unclear("has times with different minutes", f"{days} at 8am", f"{days} at 8pm")
    return f"{known[0].minute} {','.join(str(hour % 24) for hour in sorted(hours))}"


def _hour(time: ClockTime, days: str, part: str) -> int:
    hours = [hour for hour in time.hours if not part or hour in PARTS[part].hours]
    if not hours:
        raise Unclear("names a time outside that part of the day", f"{days}")
    if len(hours) > 1 and (time.is_open or hours[0] not in DAYTIME):
        clock = f"{hours[0]}:{time.minute:02}" if time.minute else f"{hours[0]}"
        raise Unclear(_TWO_WAYS, f"{days} at {clock}am", f"{days} at {clock}pm")
    # The midnight of a day can be its start or its end.
    if hours[0] == MIDNIGHT and not re.match(
        r"(?:every|each)(?: single)? day|everyday|daily", days
    ):
        raise Unclear(_TWO_WAYS, f"{days} at 0:00", f"{days} at 23:59")
    return hours[0]
