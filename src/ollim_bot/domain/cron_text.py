"""The text of a cron line: every mistake in it named, every word in it turned into a number."""

from __future__ import annotations

import re
from typing import NamedTuple

from ollim_bot.errors import BadCron

_LONGEST = 500
_NEEDED = "a cron line needs 5 fields (minute hour day month weekday)"
_EXAMPLE = "for example `30 8 * * 1-5`"
_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_TERM = re.compile(r"(\*|(?P<first>\w+)(-(?P<last>\w+))?)(/(?P<step>\w+))?", re.ASCII)
_SPECIAL_DAY = re.compile(r"lw?", re.IGNORECASE)
_SPECIAL_WEEKDAY = re.compile(r"(?P<day>\d|[a-z]{3})(?P<which>l|#\w+)", re.ASCII | re.IGNORECASE)


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    size: int
    words: tuple[str, ...] = ()


_DAY = _Field("day of month", 1, 31, 31)
_WEEKDAY = _Field("weekday", 0, 7, 7, _WEEKDAYS)
_FIELDS = (
    _Field("minute", 0, 59, 60),
    _Field("hour", 0, 23, 24),
    _DAY,
    _Field("month", 1, 12, 12, _MONTHS),
    _WEEKDAY,
)


class _Wrong(Exception):
    """Says what is wrong with a field."""


def normalised(text: str) -> str:
    """The line in five fields without words, meaning the same. Raises `BadCron`."""
    return " ".join(
        _normalised_field(text, field, part)
        for field, part in zip(_FIELDS, _parts(text), strict=True)
    )


def _parts(text: str) -> list[str]:
    _require_plain(text)
    parts = text.split()
    if len(parts) == 1 and parts[0].startswith("@"):
        return _alias(text, parts[0]).split()
    if len(parts) != len(_FIELDS):
        raise BadCron(text, _wrong_number_of(parts))
    return parts


def _require_plain(text: str) -> None:
    if len(text) > _LONGEST:
        raise BadCron(text, f"a cron line has at most {_LONGEST} characters, not {len(text)}")
    for char in text:
        if not (" " <= char <= "~" or char == "\t"):
            raise BadCron(text, f"{char!r} cannot stand in a cron line; write {_EXAMPLE}")


def _alias(text: str, word: str) -> str:
    if word.lower() == "@reboot":
        raise BadCron(text, f"`{word}` is not a time; say when it is to run, {_EXAMPLE}")
    if word.lower() not in _ALIASES:
        raise BadCron(text, f"`{_cut(word)}` is not one of {', '.join(_ALIASES)}")
    return _ALIASES[word.lower()]


def _wrong_number_of(parts: list[str]) -> str:
    if not parts:
        return f"{_NEEDED}, this one is empty, {_EXAMPLE}"
    seconds = " (seconds cannot be set)" if len(parts) == 6 else ""
    return f"{_NEEDED}, has {len(parts)}{seconds}: `{_cut(' '.join(parts))}`, {_EXAMPLE}"


def _normalised_field(text: str, field: _Field, part: str) -> str:
    try:
        return ",".join(_normalised_term(field, term) for term in part.split(","))
    except _Wrong as wrong:
        raise BadCron(text, str(wrong), field=field.name) from None


def _normalised_term(field: _Field, term: str) -> str:
    if field is _DAY and _SPECIAL_DAY.fullmatch(term):
        return term.upper()
    if field is _WEEKDAY and (special := _SPECIAL_WEEKDAY.fullmatch(term)):
        return f"{_number(field, special['day'])}{_which(term, special)}"
    if not term:
        raise _Wrong("a list has a value on both sides of each comma, for example `1,3,5`")
    match = _TERM.fullmatch(term)
    if not match:
        raise _Wrong(f"`{_cut(term)}` is not `*`, a value, a range like `1-5` or a step like `*/5`")
    step = _step(field, term, match["step"])
    if not match["first"]:
        return f"*{step}"
    if not match["last"]:
        return f"{_number(field, match['first'])}{step}"
    return _range(field, match["first"], match["last"], step)


def _which(term: str, special: re.Match[str]) -> str:
    which = special["which"].upper()
    if which not in ("L", "#1", "#2", "#3", "#4", "#5"):
        raise _Wrong(f"`{_cut(term)}` is not `{special['day']}#1` to `{special['day']}#5`")
    return which


def _range(field: _Field, start: str, end: str, step: str) -> str:
    first, last = _number(field, start), _number(field, end)
    if field is _WEEKDAY and first > last == 0:
        last = 7
    if first > last:
        top = max(first, field.low + field.size - 1)
        forwards = f"{_span(first, top)},{_span(field.low, last)}"
        raise _Wrong(f"`{_cut(f'{start}-{end}')}` runs backwards; write `{forwards}`")
    # cronsim would read `5-5/2` as `5/2`, from 5 to the end.
    return str(first) if first == last else f"{first}-{last}{step}"


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _step(field: _Field, term: str, step: str | None) -> str:
    if step is None:
        return ""
    if not (step.isdecimal() and 1 <= int(step) <= field.size):
        raise _Wrong(f"the step in `{_cut(term)}` is not 1 to {field.size}")
    return f"/{int(step)}"


def _number(field: _Field, value: str) -> int:
    if value.lower() in field.words:
        return field.low + field.words.index(value.lower())
    if value.isdecimal() and field.low <= int(value) <= field.high:
        return int(value)
    words = f" or {field.words[0]} to {field.words[-1]}" if field.words else ""
    raise _Wrong(f"`{_cut(value)}` is not {field.low} to {field.high}{words}")


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
