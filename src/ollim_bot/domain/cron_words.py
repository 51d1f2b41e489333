"""What a cron line means, in plain words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Protocol

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Pattern(Protocol):
    """A cron line as the values that it matches, in cronsim's shape."""

    LAST: int
    LAST_WEEKDAY: int
    minutes: set[int]
    hours: set[int]
    days: set[int]
    months: set[int]
    weekdays: set[int | tuple[int, int]]
    day_and: bool


def in_words(pattern: Pattern) -> str:
    """`At 08:30 on Monday through Friday`, `Every 15 minutes`."""
    times = _times(sorted(pattern.minutes), sorted(pattern.hours))
    dates = _dates(pattern)
    if not dates and times.startswith("at ") and not times.endswith("every hour"):
        dates = "every day"
    sentence = f"{times} {dates}".strip()
    return sentence[0].upper() + sentence[1:]


def _times(minutes: Sequence[int], hours: Sequence[int]) -> str:
    moments = [60 * hour + minute for hour in hours for minute in minutes]
    rhythm = _rhythm(moments)
    if len(hours) == 24:
        if rhythm and moments[0] == 0:
            return f"every {rhythm}"
        return f"at {_plural('minute', minutes)} {_series(minutes, str)} of every hour"
    if rhythm and len(moments) > 3:
        return f"every {rhythm} from {_clock(moments[0])} to {_clock(moments[-1])}"
    if len(moments) <= 6:
        return f"at {_joined(map(_clock, moments))}"
    past = f"at {_plural('minute', minutes)} {_series(minutes, str)}"
    return f"{past} of {_plural('hour', hours)} {_series(hours, str)}"


def _rhythm(moments: Sequence[int]) -> str | None:
    """The distance from each of the moments of a day to the next: `15 minutes`, `hour`."""
    distances = {later - earlier for earlier, later in pairwise(moments)}
    if len(distances) != 1:
        return None
    (distance,) = distances
    count, unit = (distance // 60, "hour") if distance % 60 == 0 else (distance, "minute")
    return unit if count == 1 else f"{count} {unit}s"


def _clock(minute_of_day: int) -> str:
    return f"{minute_of_day // 60:02}:{minute_of_day % 60:02}"


def _dates(pattern: Pattern) -> str:
    days, weekdays, months = _days(pattern), _weekdays(pattern), _months(pattern)
    if not pattern.day_and and not (days and weekdays):
        days = weekdays = ""
    in_months = f" in {months}" if months else ""
    if days and weekdays:
        link = ", but only on" if pattern.day_and else ", and also on"
        return f"on {weekdays}{link} {days}{in_months}"
    if days:
        return f"on {days} of {months or 'every month'}"
    if weekdays:
        return f"on {weekdays}{in_months}"
    return f"every day{in_months}" if months else ""


def _days(pattern: Pattern) -> str:
    """Empty when every day matches; so are the other two."""
    numbers = sorted(day for day in pattern.days if day > 0)
    if len(numbers) == 31:
        return ""
    special = {pattern.LAST: "the last day", pattern.LAST_WEEKDAY: "the last weekday"}
    named = [words for day, words in special.items() if day in pattern.days]
    return _joined([*_numbered_days(numbers), *named])


def _numbered_days(days: Sequence[int]) -> list[str]:
    steps = {later - earlier for earlier, later in pairwise(days)}
    if len(days) > 3 and len(steps) == 1 and steps != {1}:
        step = _ordinal(steps.pop())
        return [f"every {step} day from the {_ordinal(days[0])} to the {_ordinal(days[-1])}"]
    return _runs(days, lambda day: f"the {_ordinal(day)}")


def _weekdays(pattern: Pattern) -> str:
    plain = {day % 7 for day in pattern.weekdays if isinstance(day, int)}
    if len(plain) == 7:
        return ""
    named = _runs(sorted((day - 1) % 7 for day in plain), _WEEKDAYS.__getitem__)
    nth = {(day[0] % 7, day[1]) for day in pattern.weekdays if not isinstance(day, int)}
    in_order = sorted(nth, key=lambda day: (day[0], abs(day[1])))
    return _joined([*named, *(_nth_weekday(pattern, *day) for day in in_order)])


def _nth_weekday(pattern: Pattern, day: int, which: int) -> str:
    place = "last" if which == pattern.LAST else _ordinal(which)
    return f"the {place} {_WEEKDAYS[day - 1]} of the month"


def _months(pattern: Pattern) -> str:
    months = sorted(pattern.months)
    return "" if len(months) == 12 else _series(months, lambda month: _MONTHS[month - 1])


def _series(values: Sequence[int], label: Callable[[int], str]) -> str:
    return _joined(_runs(values, label))


def _runs(values: Sequence[int], label: Callable[[int], str]) -> list[str]:
    """The labels of the values, three and more in a row as `first through last`."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    words = []
    for run in runs:
        if len(run) > 2:
            words.append(f"{label(run[0])} through {label(run[-1])}")
        else:
            words.extend(map(label, run))
    return words


def _joined(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _plural(noun: str, values: Sequence[int]) -> str:
    return noun if len(values) == 1 else f"{noun}s"


def _ordinal(number: int) -> str:
    teens = 10 < number % 100 < 20
    suffix = "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
