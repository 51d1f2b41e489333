"""Times of day in words.

time     = [at] (clock | fraction hour | noon | midnight) | "at" hour
clock    = 9am | 9:30 pm | 21:30 [:15] | 9 o'clock
fraction = quarter past | half past | quarter to
hour     = 9 | nine

An hour from 1 to 12 without am, pm or a leading zero has two readings, and both are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ollim_bot.domain.phrases.wording import NUMBERS, SMALL_NUMBERS, Unclear

MIDNIGHT = 24  # where a day ends; where it begins, the hour is 0


class ClockTime(NamedTuple):
    """A time of day; where am or pm is open it has two hours, that of the 24-hour clock first."""

    hours: tuple[int, ...]
    minute: int = 0
    second: int = 0


def read_time(words: str) -> ClockTime | None:
    """None if the words name no time; raises `Unclear` if they name one that does not exist."""
    for pattern, time_of in _FORMS:
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
    """`half past nine`; the hour of `quarter to nine` is the one before."""
    if not 1 <= _hour(found) <= 12:
        raise _no_such_time()
    minute, before = _FRACTIONS[found["fraction"]]
    return ClockTime(tuple(hour - before for hour in _readings(found)), minute)


def _hour(found: re.Match[str]) -> int:
    return NUMBERS.get(found["hour"]) or int(found["hour"])


def _sixtieth(found: re.Match[str], name: str) -> int:
    number = int(found[name] or 0)
    if number > 59:
        raise _no_such_time()
    return number


def _no_such_time() -> Unclear:
    return Unclear("names a time that does not exist", "tomorrow 9am", "tomorrow 21:30")


_FRACTIONS = {"quarter past": (15, 0), "half past": (30, 0), "quarter to": (45, 1)}

_HOUR = rf"(?P<hour>[0-9]{{1,2}}|{'|'.join(SMALL_NUMBERS[:12])})"
_MINUTE = r":(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?"

_FORMS: tuple[tuple[str, Callable[[re.Match[str]], ClockTime]], ...] = (
    (rf"(?:at )?{_HOUR}(?:{_MINUTE})? ?(?P<half>am|pm)", _with_half),
    (rf"(?:at )?{_HOUR}{_MINUTE}", _without_half),
    (rf"(?:at )?{_HOUR} o'?clock", _full_hour),
    (rf"at {_HOUR}", _full_hour),
    (rf"(?:at )?(?:a )?(?P<fraction>{'|'.join(_FRACTIONS)}) {_HOUR}", _beside_the_hour),
    (r"(?:at )?(?:noon|midday)", lambda _: ClockTime((12,))),
    (r"(?:at )?midnight", lambda _: ClockTime((MIDNIGHT,))),
)
