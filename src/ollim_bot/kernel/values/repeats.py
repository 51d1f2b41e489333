"""Repeats beyond cron: counted days, weeks and months, days of a month, and what follows Done.

Like cron, a repeat is due at wall-clock times: one that a clock change skips is due at the end of
the gap, one that comes twice the first time only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import islice, takewhile

from ollim_bot.kernel.base.errors import BadRepeat
from ollim_bot.kernel.base.moments import instant
from ollim_bot.kernel.base.text import joined
from ollim_bot.kernel.values.cron import (
    WEEKDAY_WORDS,
    Cron,
    last_moment_by_wall,
    moments_by_wall,
    ordinal,
)

MOST_TIMES = 10_000
# How the text of a rhythm begins that is more than a cron line.
REPEATS = ("every ", "cron ", "after-done ")
_MOST_COUNTED = 999
_MOST_AT = 24
_HAIR = datetime.resolution
_ONE_DAY = timedelta(days=1)
_PLACES = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": -1}
_COUNTED = re.compile(r"(?:(?P<count>\d{1,4}) )?(?P<unit>day|week|month)s?", re.ASCII)
_LAST_DAY = "last day of the month"
_WEEKDAY_OF_MONTH = re.compile(
    rf"(?P<place>{'|'.join(_PLACES)}) (?P<day>{'|'.join(WEEKDAY_WORDS).lower()}) of the month"
)
_AT = re.compile(r"(\d{1,2}):(\d\d)", re.ASCII)
_EVERY_NEEDED = (
    "is not `2 weeks` (days, weeks or months), `last day of the month` or "
    "`first monday of the month` (first to fourth, or last)"
)
# How a repeat is written in the ledger.
_WRITTEN = re.compile(
    r"(?P<kind>every|cron|after-done) (?P<rule>.+?)(?: at (?P<at>[\d:, ]+?))?"
    r"(?: from (?P<start>\S+))?(?: until (?P<until>\S+))?(?: times (?P<times>\d+))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class DayRule:
    """Which days: every `count` units, or in each month its last day or one of its weekdays.

    `place` counts from the end of the month if it is negative.
    """

    count: int
    unit: str
    place: int | None = None
    weekday: int | None = None

    @classmethod
    def parse(cls, text: str) -> DayRule:
        """Parse `2 weeks`, `last day of the month`, `first monday of the month`.

        Raises `BadRepeat`.
        """
        words = " ".join(text.lower().split())
        if words == _LAST_DAY:
            return cls(1, "month", place=-1)
        if match := _WEEKDAY_OF_MONTH.fullmatch(words):
            weekday = [name.lower() for name in WEEKDAY_WORDS].index(match["day"])
            return cls(1, "month", _PLACES[match["place"]], weekday)
        match = _COUNTED.fullmatch(words)
        if match is None:
            raise BadRepeat(f"`{text}` {_EVERY_NEEDED}")
        count = int(match["count"] or 1)
        if not 1 <= count <= _MOST_COUNTED:
            raise BadRepeat(f"`{text}`: the number is 1 to {_MOST_COUNTED}")
        return cls(count, match["unit"])

    def __str__(self) -> str:
        if self.place is None:
            return f"{self.count} {self.unit}{'s' * (self.count != 1)}"
        if self.weekday is None:
            return _LAST_DAY
        place = next(word for word, place in _PLACES.items() if place == self.place)
        return f"{place} {WEEKDAY_WORDS[self.weekday].lower()} of the month"

    def explain(self, start: date) -> str:
        """`every 2 weeks on Tuesday`, `on the last day of every month`."""
        if self.place is not None:
            day = WEEKDAY_WORDS[self.weekday] if self.weekday is not None else "day"
            place = next(word for word, place in _PLACES.items() if place == self.place)
            return f"on the {place} {day} of every month"
        every = f"every {self.unit if self.count == 1 else self}"
        if self.unit == "week":
            return f"{every} on {WEEKDAY_WORDS[start.weekday()]}"
        if self.unit == "month":
            last = ", or the last day of a shorter month" if start.day > 28 else ""
            return f"{every} on the {ordinal(start.day)}{last}"
        return every

    def days(self, start: date, first: date) -> Iterator[date]:
        """The days not earlier than `first`, counted from `start`, in order."""
        # dateutil takes a tenth of a cold start, and few people have such a job.
        from dateutil.rrule import DAILY, MONTHLY, rrule, weekday

        first = max(first, start)
        if self.unit != "month":
            step = self.count * (7 if self.unit == "week" else 1)
            begin = start + (first - start) // timedelta(step) * timedelta(step)
            found = rrule(DAILY, interval=step, dtstart=_midnight(begin))
        else:
            # The first day of the last counted month that is not after the month of `first`.
            months = (first.year - start.year) * 12 + first.month - start.month
            month = start.year * 12 + start.month - 1 + months // self.count * self.count
            begin = date(month // 12, month % 12 + 1, 1)
            if self.weekday is not None:
                days = {"byweekday": weekday(self.weekday)(self.place)}
            elif self.place is not None:
                days = {"bymonthday": self.place}
            else:
                # The 31st of a short month is its last day.
                days = {"bymonthday": range(min(start.day, 28), start.day + 1), "bysetpos": -1}
            found = rrule(MONTHLY, interval=self.count, dtstart=_midnight(begin), **days)
        return (each.date() for each in found if each.date() >= first)


@dataclass(frozen=True, slots=True)
class Repeat:
    """A rule of days with times of day, or a cron line, from `start` on.

    It ends with the day `until`, and after `times` moments from `start` on. The methods are those
    of `Cron`, but after the last moment there is none.
    """

    rule: DayRule | Cron
    at: tuple[time, ...] = ()
    start: date | None = None
    until: date | None = None
    times: int | None = None

    @property
    def text(self) -> str:
        """The form of it that `read_repeat` understands."""
        return " ".join(
            [
                f"cron {self.rule}" if isinstance(self.rule, Cron) else f"every {self.rule}",
                *([f"at {', '.join(map(clock_text, self.at))}"] if self.at else ()),
                *([f"from {self.start}"] if self.start else ()),
                *([f"until {self.until}"] if self.until else ()),
                *([f"times {self.times}"] if self.times else ()),
            ]
        )

    def __str__(self) -> str:
        return self.text

    @property
    def follows_real_time(self) -> bool:
        return isinstance(self.rule, Cron) and self.rule.follows_real_time

    def explain(self) -> str:
        """`At 9:00 every 2 weeks on Tuesday, until 24 Dec 2026`."""
        if isinstance(self.rule, Cron):
            words = self.rule.explain()
        else:
            assert self.start is not None
            words = f"At {joined(map(clock_text, self.at))} {self.rule.explain(self.start)}"
        until = f", until {self.until.day} {self.until:%b %Y}" if self.until else ""
        times = f", {self.times} time{'s' * (self.times != 1)}" if self.times else ""
        return f"{words}{until}{times}"

    def next(self, after: datetime, zone: tzinfo) -> datetime | None:
        """The first moment later than `after`."""
        return next(self.moments_from(after.astimezone(UTC) + _HAIR, zone), None)

    def previous(self, before: datetime, zone: tzinfo) -> datetime | None:
        """The last moment earlier than `before`."""
        end = _end(self, zone)
        before = before.astimezone(UTC) if end is None else min(before.astimezone(UTC), end)
        begin = self._begin(zone)
        if begin is not None and before <= begin:
            return None
        if isinstance(self.rule, Cron):
            found: datetime | None = self.rule.previous(before, zone)
        else:
            found = last_moment_by_wall(self._walls_before, before, zone)
        if found is None or (begin is not None and found < begin):
            return None
        return found.astimezone(zone)

    def between(self, start: datetime, end: datetime, zone: tzinfo) -> Iterator[datetime]:
        """The moments from `start` on and earlier than `end`, in order."""
        limit = end.astimezone(UTC)
        return takewhile(
            lambda moment: moment.astimezone(UTC) < limit, self.moments_from(start, zone)
        )

    def moments_from(self, start: datetime, zone: tzinfo) -> Iterator[datetime]:
        """The moments from `start` on, in order."""
        moments, end = self._endless(start, zone), _end(self, zone)
        if end is None:
            return moments
        return takewhile(lambda moment: moment.astimezone(UTC) < end, moments)

    def walls(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The wall-clock times later than `after` and not later than `until`, in order."""
        if self.start is not None:
            after = max(after, _midnight(self.start) - _HAIR)
        if (end := _end(self, UTC)) is not None:
            until = min(until, end.replace(tzinfo=None) - _HAIR)
        if isinstance(self.rule, Cron):
            return self.rule.walls(after.replace(microsecond=0), until)
        return takewhile(lambda wall: wall <= until, self._walls_after(after))

    def _endless(self, start: datetime, zone: tzinfo) -> Iterator[datetime]:
        begin = self._begin(zone)
        start = start.astimezone(UTC) if begin is None else max(start.astimezone(UTC), begin)
        if isinstance(self.rule, Cron):
            return self.rule.moments_from(start, zone)
        moments = moments_by_wall(self._walls_after, start, zone)
        return (moment.astimezone(zone) for moment in moments)

    def _begin(self, zone: tzinfo) -> datetime | None:
        """The instant at which its first day begins."""
        return instant(_midnight(self.start), zone).astimezone(UTC) if self.start else None

    def _walls_after(self, wall: datetime) -> Iterator[datetime]:
        return (each for each in self._walls_from(wall.date()) if each > wall)

    def _walls_before(self, wall: datetime) -> Iterator[datetime]:
        """Latest first."""
        assert isinstance(self.rule, DayRule)
        assert self.start is not None
        end = wall.date()
        gap = timedelta({"day": 1, "week": 7, "month": 31}[self.rule.unit] * (self.rule.count + 1))
        while end >= self.start:
            begin = max(self.start, end - gap)
            limit = min(wall, datetime.combine(end, time.max))
            walls = [*takewhile(limit.__gt__, self._walls_from(begin))]
            yield from reversed(walls)
            end = begin - _ONE_DAY

    def _walls_from(self, day: date) -> Iterator[datetime]:
        assert isinstance(self.rule, DayRule)
        assert self.start is not None
        for found in self.rule.days(self.start, day):
            yield from (datetime.combine(found, at) for at in self.at)


@lru_cache(512)
def _end(repeat: Repeat, zone: tzinfo) -> datetime | None:
    """The instant, in UTC, at which and after which it is not due any more."""
    ends = []
    if repeat.until is not None:
        ends.append(instant(_midnight(repeat.until) + _ONE_DAY, zone).astimezone(UTC))
    if repeat.times is not None:
        begin = repeat._begin(zone)
        assert begin is not None
        last = next(islice(repeat._endless(begin, zone), repeat.times - 1, None), None)
        ends += [last.astimezone(UTC) + _HAIR] if last is not None else []
    return min(ends, default=None)


@dataclass(frozen=True, slots=True)
class AfterDone:
    """Due once on the day `start`, and then `days` after each time that it was done.

    `done_on` is the day of the answer that has set the next moment; the ledger has it, not the
    file.
    """

    days: int
    at: time
    start: date
    done_on: date | None = field(default=None, repr=False, compare=False)

    @property
    def text(self) -> str:
        return f"after-done {days_text(self.days)} at {clock_text(self.at)} from {self.start}"

    def __str__(self) -> str:
        return self.text

    @property
    def follows_real_time(self) -> bool:
        return False

    def explain(self) -> str:
        """`At 9:00, 3 days after it is done`."""
        return f"At {clock_text(self.at)}, {days_text(self.days)} after it is done"

    def after_answer(self, answered: datetime, zone: tzinfo) -> datetime:
        """The moment that an answer at `answered` sets."""
        return self.after_day(answered.astimezone(zone).date(), zone)

    def after_day(self, day: date, zone: tzinfo) -> datetime:
        """The moment that an answer on that day sets."""
        return instant(datetime.combine(day + timedelta(self.days), self.at), zone)

    def first(self, zone: tzinfo) -> datetime:
        """The moment that needs no answer before it."""
        return instant(datetime.combine(self.start, self.at), zone)

    def next(self, after: datetime, zone: tzinfo) -> datetime | None:
        """The first known moment later than `after`."""
        return next(self.moments_from(after.astimezone(UTC) + _HAIR, zone), None)

    def previous(self, before: datetime, zone: tzinfo) -> datetime | None:
        """The last known moment earlier than `before`."""
        limit = before.astimezone(UTC)
        earlier = [each for each in self._moments(zone) if each.astimezone(UTC) < limit]
        return earlier[-1] if earlier else None

    def between(self, start: datetime, end: datetime, zone: tzinfo) -> Iterator[datetime]:
        """The known moments from `start` on and earlier than `end`, in order."""
        limit = end.astimezone(UTC)
        return (each for each in self.moments_from(start, zone) if each.astimezone(UTC) < limit)

    def moments_from(self, start: datetime, zone: tzinfo) -> Iterator[datetime]:
        """The known moments from `start` on, in order."""
        start = start.astimezone(UTC)
        return (each for each in self._moments(zone) if each.astimezone(UTC) >= start)

    def walls(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The wall-clock time of its first moment, if it lies between."""
        wall = datetime.combine(self.start, self.at)
        return iter([wall] if after < wall <= until else [])

    def _moments(self, zone: tzinfo) -> Sequence[datetime]:
        first = self.first(zone)
        return [first] if self.done_on is None else [first, self.after_day(self.done_on, zone)]


Rhythm = Cron | Repeat | AfterDone


@lru_cache(512)
def read_rhythm(text: str) -> Rhythm:
    """Read the `text` of a rhythm. Raises `BadCron` or `BadRepeat`."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return Cron.parse(text)
    start = read_day(match["start"]) if match["start"] else None
    at = read_clocks(match["at"].split(", ")) if match["at"] else ()
    if match["kind"] == "after-done":
        if start is None or len(at) != 1:
            raise BadRepeat(f"`{text}` has not one time of day and a first day")
        return AfterDone(read_days(match["rule"]), at[0], start)
    rule = Cron.parse(match["rule"]) if match["kind"] == "cron" else DayRule.parse(match["rule"])
    until = read_day(match["until"]) if match["until"] else None
    times = int(match["times"]) if match["times"] else None
    if (start is None or not at) and (isinstance(rule, DayRule) or (start is None and times)):
        raise BadRepeat(f"`{text}` has no first day or no time of day")
    return Repeat(rule, at, start, until, times)


def read_clocks(texts: Sequence[str]) -> tuple[time, ...]:
    """The times of day that are written `9:00`, in order. Raises `BadRepeat`."""
    found = set()
    for text in texts:
        match = _AT.fullmatch(text.strip())
        if match is None or int(match[1]) > 23 or int(match[2]) > 59:
            raise BadRepeat(f"`{text}` is not a time of day such as `9:00` or `21:30`")
        found.add(time(int(match[1]), int(match[2])))
    if not 1 <= len(found) <= _MOST_AT:
        raise BadRepeat(f"it has 1 to {_MOST_AT} times of day, such as `9:00`")
    return tuple(sorted(found))


def read_days(text: str) -> int:
    """The days of `3 days`, `2 weeks`, `3d` or `2w`. Raises `BadRepeat`."""
    match = re.fullmatch(r"(\d{1,3}) ?(d|days?|w|weeks?)", text.strip().lower(), re.ASCII)
    if match is None or int(match[1]) == 0:
        raise BadRepeat(f"`{text}` is not a number of days or weeks such as `3 days` or `2 weeks`")
    return int(match[1]) * (7 if match[2].startswith("w") else 1)


def read_day(text: str) -> date:
    """The day that is written `2026-11-17`. Raises `BadRepeat`."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise BadRepeat(f"`{text}` is not a day such as `2026-11-17`") from None


def days_text(days: int) -> str:
    count, unit = (days // 7, "week") if days % 7 == 0 else (days, "day")
    return f"{count} {unit}{'s' * (count != 1)}"


def clock_text(at: time) -> str:
    return f"{at.hour}:{at.minute:02}"


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)
