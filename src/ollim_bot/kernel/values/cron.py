"""Cron expressions: parsing, the instants they mean, and their wording in English."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache, partial
from itertools import pairwise, takewhile
from typing import NamedTuple

from cronsim import CronSim, CronSimError

from ollim_bot.kernel.base.errors import BadCron
from ollim_bot.kernel.base.moments import MONTHS, clock_change, instant, offset_at
from ollim_bot.kernel.base.text import joined

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
_MONTH_NAMES = tuple(name.lower() for name in MONTHS)
_WEEKDAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_TERM = re.compile(r"(\*|(?P<first>\w+)(-(?P<last>\w+))?)(/(?P<step>\w+))?", re.ASCII)
_SPECIAL_DAY = re.compile(r"lw?", re.IGNORECASE)
_SPECIAL_WEEKDAY = re.compile(r"(?P<day>\d|[a-z]{3})(?P<which>l|#\w+)", re.ASCII | re.IGNORECASE)
_MONTH_WORDS = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)
WEEKDAY_WORDS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SOME_DAY = datetime(2000, 1, 1)
_ONE_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
# With these, cronsim accepts lines that match no day at all: `0 0 */31 * mon#5`.
_EXTENSIONS = frozenset("L#")
# Many jobs share few lines, and parsing a line takes longer than reading the rest of its file.
_LINES_REMEMBERED = 512


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron line, due at the wall-clock times of a zone that its five fields match.

    A time that a clock change skips is due once, at the end of the gap; a time that comes twice is
    due the first time only. A line that matches every hour of the day follows real time instead: it
    is due at each instant at which the clocks show a matching time.

    The methods take instants and return instants in `zone`.
    """

    text: str
    _spec: str = field(repr=False, compare=False)
    # Whether no clock change moves or merges its moments.
    follows_real_time: bool = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> Cron:
        """Parse a line. Raises `BadCron`."""
        return cls(*_read(text))

    def __str__(self) -> str:
        return self.text

    def explain(self) -> str:
        """`At 8:30 on Monday through Friday`, `Every 15 minutes`."""
        pattern = _pattern(self._spec, _SOME_DAY)
        times, dates = _times(sorted(pattern.minutes), sorted(pattern.hours)), _dates(pattern)
        if not dates and times.startswith("at ") and not times.endswith("every hour"):
            dates = "every day"
        sentence = f"{times} {dates}".strip()
        return sentence[0].upper() + sentence[1:]

    def next(self, after: datetime, zone: tzinfo) -> datetime:
        """The first moment later than `after`."""
        return _first_from(self, after.astimezone(UTC) + datetime.resolution, zone)

    def previous(self, before: datetime, zone: tzinfo) -> datetime:
        """The last moment earlier than `before`."""
        if self.follows_real_time:
            return self._last_in_real_time(_rounded_up(before), zone).astimezone(zone)
        walls = partial(_wall_times, self._spec, reverse=True)
        found = last_moment_by_wall(walls, before, zone)
        assert found is not None, "every cron line has come at some time"
        return found.astimezone(zone)

    def between(self, start: datetime, end: datetime, zone: tzinfo) -> Iterator[datetime]:
        """The moments from `start` on and earlier than `end`, in order."""
        limit = end.astimezone(UTC)
        return takewhile(
            lambda moment: moment.astimezone(UTC) < limit, self.moments_from(start, zone)
        )

    def moments_from(self, start: datetime, zone: tzinfo) -> Iterator[datetime]:
        """The moments from `start` on, in order, without end."""
        if self.follows_real_time:
            moments = self._in_real_time(_rounded_up(start), zone)
        else:
            moments = moments_by_wall(partial(_wall_times, self._spec), start, zone)
        return (moment.astimezone(zone) for moment in moments)

    def walls(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The wall-clock times later than `after` and not later than `until`, in order."""
        return takewhile(lambda wall: wall <= until, _wall_times(self._spec, after))

    # Real time is searched in stretches of one offset, in which it runs as evenly as a wall clock:
    # up to a clock change, or for a day, and then on to a day before the next match.

    def _in_real_time(self, start: datetime, zone: tzinfo) -> Iterator[datetime]:
        while True:
            offset, end = offset_at(start, zone), start + _ONE_DAY
            changed = offset_at(end, zone) != offset
            end = clock_change(start, end, zone) if changed else end
            for wall in _wall_times(self._spec, _shown(start - _SECOND, offset)):
                moment = _instant(wall, offset)
                if moment >= end:
                    break
                yield moment
            start = end if changed else max(end, moment - _ONE_DAY)

    def _last_in_real_time(self, end: datetime, zone: tzinfo) -> datetime:
        while True:
            last, start = end - _SECOND, end - _ONE_DAY
            offset = offset_at(last, zone)
            changed = offset_at(start, zone) != offset
            start = clock_change(start, last, zone) if changed else start
            wall = next(_wall_times(self._spec, _shown(end, offset), reverse=True))
            moment = _instant(wall, offset)
            if moment >= start:
                return moment
            end = start if changed else min(start, moment + _ONE_DAY)


def moments_by_wall(
    walls_after: Callable[[datetime], Iterator[datetime]], start: datetime, zone: tzinfo
) -> Iterator[datetime]:
    """The instants from `start` on at which the clocks show the walls, in UTC and in order."""
    start = _rounded_up(start)
    last = start - _SECOND
    for wall in walls_after(_shown(last, offset_at(last, zone))):
        moment = instant(wall, zone).astimezone(UTC)
        if moment >= start:
            start = moment + _SECOND
            yield moment


def last_moment_by_wall(
    walls_before: Callable[[datetime], Iterator[datetime]], end: datetime, zone: tzinfo
) -> datetime | None:
    """The last instant before `end` at which the clocks show one of the walls, in UTC."""
    # While the clocks show an hour for the second time, all of its first time is earlier:
    # start from the time that they would show had they not been put back.
    end = _rounded_up(end)
    unchanged = end.astimezone(zone).replace(fold=0).utcoffset() or timedelta()
    moments = (instant(wall, zone).astimezone(UTC) for wall in walls_before(_shown(end, unchanged)))
    return next((moment for moment in moments if moment < end), None)


class _WallTimes(CronSim):
    """Iterates over matching wall-clock times without a step for each hour or minute in between."""

    def advance_hour(self) -> bool:
        now = self.dt
        if now.hour in self.hours:
            return False
        hour = min((hour for hour in self.hours if hour > now.hour), default=24)
        self.dt = datetime(now.year, now.month, now.day) + timedelta(hours=hour)
        return True

    def advance_minute(self) -> bool:
        now = self.dt
        if now.minute in self.minutes and now.second == 0:
            return False
        later = range(now.minute + 1, 60)
        minute = next((minute for minute in later if minute in self.minutes), 60)
        self.dt = datetime(now.year, now.month, now.day, now.hour) + timedelta(minutes=minute)
        return True


# A start asks for the next moment of every job, and many jobs share few lines. `start` is in UTC:
# two moments of a zone that shows an hour twice would count as one.
@lru_cache(_LINES_REMEMBERED)
def _first_from(cron: Cron, start: datetime, zone: tzinfo) -> datetime:
    return next(cron.moments_from(start, zone))


@lru_cache(_LINES_REMEMBERED)
def _read(text: str) -> tuple[str, str, bool]:
    """The line, the same in five fields of numbers, and whether it matches every hour."""
    fields = []
    for known, part in zip(_FIELDS, _parts(text), strict=True):
        try:
            fields.append(",".join(_normalised_term(known, term) for term in part.split(",")))
        except _WrongField as wrong:
            raise BadCron(text, str(wrong), field=known.name) from None
    spec, line = " ".join(fields), " ".join(text.split())
    try:
        simulation = CronSim(spec, _SOME_DAY)
        if _EXTENSIONS.intersection(spec):
            next(simulation)
    except (CronSimError, StopIteration):
        raise BadCron(text, f"`{line}` would never run: no year has such a day") from None
    return line, spec, len(simulation.hours) == 24


def _wall_times(spec: str, start: datetime, *, reverse: bool = False) -> _WallTimes:
    """The matching times after `start`, or before it; it is a whole second."""
    walls = copy(_pattern(spec, _SOME_DAY, reverse))
    walls.dt = start
    return walls


# A shared instance, which must be copied before it is iterated.
_pattern = lru_cache(_LINES_REMEMBERED)(_WallTimes)


def _shown(moment: datetime, offset: timedelta) -> datetime:
    return moment.replace(tzinfo=None) + offset


def _instant(wall: datetime, offset: timedelta) -> datetime:
    return (wall - offset).replace(tzinfo=UTC)


def _rounded_up(moment: datetime) -> datetime:
    return (moment.astimezone(UTC) + _SECOND - datetime.resolution).replace(microsecond=0)


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    size: int
    words: tuple[str, ...] = ()


_DAY = _Field("day of month", 1, 31, 31)
_WEEKDAY = _Field("weekday", 0, 7, 7, _WEEKDAY_NAMES)
_FIELDS = (
    _Field("minute", 0, 59, 60),
    _Field("hour", 0, 23, 24),
    _DAY,
    _Field("month", 1, 12, 12, _MONTH_NAMES),
    _WEEKDAY,
)


class _WrongField(Exception):
    """What is wrong with a field."""


def _parts(text: str) -> list[str]:
    if len(text) > _LONGEST:
        raise BadCron(text, f"a cron line has at most {_LONGEST} characters, not {len(text)}")
    for char in text:
        if not (" " <= char <= "~" or char == "\t"):
            raise BadCron(text, f"{char!r} cannot stand in a cron line; write {_EXAMPLE}")
    parts = text.split()
    if len(parts) == 1 and parts[0].startswith("@"):
        word = parts[0]
        if word.lower() == "@reboot":
            raise BadCron(text, f"`{word}` is not a time; say when it is to run, {_EXAMPLE}")
        if word.lower() not in _ALIASES:
            raise BadCron(text, f"`{_cut(word)}` is not one of {', '.join(_ALIASES)}")
        return _ALIASES[word.lower()].split()
    if not parts:
        raise BadCron(text, f"{_NEEDED}, this one is empty, {_EXAMPLE}")
    if len(parts) != len(_FIELDS):
        seconds = " (seconds cannot be set)" if len(parts) == 6 else ""
        has = f"has {len(parts)}{seconds}: `{_cut(' '.join(parts))}`"
        raise BadCron(text, f"{_NEEDED}, {has}, {_EXAMPLE}")
    return parts


def _normalised_term(field: _Field, term: str) -> str:
    if field is _DAY and _SPECIAL_DAY.fullmatch(term):
        return term.upper()
    if field is _WEEKDAY and (special := _SPECIAL_WEEKDAY.fullmatch(term)):
        number, which = _number(field, special["day"]), special["which"].upper()
        if which not in ("L", "#1", "#2", "#3", "#4", "#5"):
            raise _WrongField(f"`{_cut(term)}` is not `{special['day']}#1` to `{special['day']}#5`")
        return f"{number}{which}"
    if not term:
        raise _WrongField("a list has a value on both sides of each comma, for example `1,3,5`")
    match = _TERM.fullmatch(term)
    if not match:
        raise _WrongField(
            f"`{_cut(term)}` is not `*`, a value, a range like `1-5` or a step like `*/5`"
        )
    step = match["step"] or ""
    if step and not (step.isdecimal() and 1 <= int(step) <= field.size):
        raise _WrongField(f"the step in `{_cut(term)}` is not 1 to {field.size}")
    step = f"/{int(step)}" if step else ""
    if not match["first"]:
        return f"*{step}"
    if not match["last"]:
        return f"{_number(field, match['first'])}{step}"
    start, end = match["first"], match["last"]
    first, last = _number(field, start), _number(field, end)
    if field is _WEEKDAY and first > last == 0:
        last = 7
    if first > last:
        top = max(first, field.low + field.size - 1)
        forwards = f"{_span(first, top)},{_span(field.low, last)}"
        raise _WrongField(f"`{_cut(f'{start}-{end}')}` runs backwards; write `{forwards}`")
    # cronsim would read `5-5/2` as `5/2`, from 5 to the end.
    return str(first) if first == last else f"{first}-{last}{step}"


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _number(field: _Field, value: str) -> int:
    if value.lower() in field.words:
        return field.low + field.words.index(value.lower())
    if value.isdecimal() and field.low <= int(value) <= field.high:
        return int(value)
    words = f" or {field.words[0]} to {field.words[-1]}" if field.words else ""
    raise _WrongField(f"`{_cut(value)}` is not {field.low} to {field.high}{words}")


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


def _times(minutes: Sequence[int], hours: Sequence[int]) -> str:
    moments = [60 * hour + minute for hour in hours for minute in minutes]
    # The constant distance between the moments of a day: `15 minutes`, `hour`.
    distances = {later - earlier for earlier, later in pairwise(moments)}
    rhythm = None
    if len(distances) == 1:
        (distance,) = distances
        count, unit = (distance // 60, "hour") if distance % 60 == 0 else (distance, "minute")
        rhythm = unit if count == 1 else f"{count} {unit}s"
    if len(hours) == 24:
        if rhythm and moments[0] == 0:
            return f"every {rhythm}"
        return f"at {_numbered('minute', minutes)} of every hour"
    if rhythm and len(moments) > 3:
        return f"every {rhythm} from {_clock(moments[0])} to {_clock(moments[-1])}"
    if len(moments) <= 6:
        return f"at {joined(map(_clock, moments))}"
    return f"at {_numbered('minute', minutes)} of {_numbered('hour', hours)}"


def _numbered(noun: str, values: Sequence[int]) -> str:
    return f"{noun}{'s' * (len(values) > 1)} {joined(_runs(values, str))}"


def _clock(minute_of_day: int) -> str:
    return f"{minute_of_day // 60}:{minute_of_day % 60:02}"


def _dates(pattern: CronSim) -> str:
    days, weekdays, months = _days(pattern), _weekdays(pattern), ""
    if len(pattern.months) < 12:
        months = joined(_runs(sorted(pattern.months), lambda month: _MONTH_WORDS[month - 1]))
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


def _days(pattern: CronSim) -> str:
    """Empty when every day matches; the same holds for `_weekdays`."""
    days = sorted(day for day in pattern.days if day > 0)
    if len(days) == 31:
        return ""
    steps = {later - earlier for earlier, later in pairwise(days)}
    if len(days) > 3 and len(steps) == 1 and steps != {1}:
        first, last, step = ordinal(days[0]), ordinal(days[-1]), ordinal(steps.pop())
        named = [f"every {step} day from the {first} to the {last}"]
    else:
        named = _runs(days, lambda day: f"the {ordinal(day)}")
    special = {pattern.LAST: "the last day", pattern.LAST_WEEKDAY: "the last weekday"}
    return joined([*named, *(words for day, words in special.items() if day in pattern.days)])


def _weekdays(pattern: CronSim) -> str:
    plain = {day % 7 for day in pattern.weekdays if isinstance(day, int)}
    if len(plain) == 7:
        return ""
    named = _runs(sorted((day - 1) % 7 for day in plain), WEEKDAY_WORDS.__getitem__)
    nth = {(day[0] % 7, day[1]) for day in pattern.weekdays if not isinstance(day, int)}
    for day, which in sorted(nth, key=lambda day: (day[0], abs(day[1]))):
        place = "last" if which == pattern.LAST else ordinal(which)
        named.append(f"the {place} {WEEKDAY_WORDS[day - 1]} of the month")
    return joined(named)


def _runs(values: Sequence[int], label: Callable[[int], str]) -> list[str]:
    """The labels of the values; three or more in a row become `first through last`."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    words: list[str] = []
    for run in runs:
        is_long = len(run) > 2
        words += [f"{label(run[0])} through {label(run[-1])}"] if is_long else map(label, run)
    return words


def ordinal(number: int) -> str:
    teens = 10 < number % 100 < 20
    suffix = "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
