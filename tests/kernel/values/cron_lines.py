"""Cron lines for property tests and years, each with what it means; no text is parsed for them."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

from hypothesis import strategies as st
from tests.kernel.values.cron_oracle import Pattern

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
NIGHTS = [
    ("America/New_York", datetime(2025, 3, 9)),
    ("America/New_York", datetime(2025, 11, 2)),
    ("Europe/Berlin", datetime(2025, 3, 30)),
    ("Europe/Berlin", datetime(2025, 10, 26)),
    ("Australia/Lord_Howe", datetime(2025, 4, 6)),
    ("Australia/Lord_Howe", datetime(2025, 10, 5)),
    ("America/Santiago", datetime(2024, 4, 7)),
    ("America/Santiago", datetime(2024, 9, 8)),
    ("Africa/Cairo", datetime(2024, 4, 26)),
    ("Africa/Cairo", datetime(2024, 11, 1)),
    ("Pacific/Apia", datetime(2011, 12, 31)),
    ("Asia/Kolkata", datetime(2025, 6, 1)),
    ("America/New_York", datetime(2025, 7, 1)),
    ("UTC", datetime(2025, 1, 1)),
]


@dataclass(frozen=True)
class CronField:
    """A field of a cron line as text, and the values it means."""

    text: str
    values: frozenset[int]


EVERY_DAY = CronField("*", frozenset(range(1, 32)))
EVERY_MONTH = CronField("*", frozenset(range(1, 13)))
EVERY_HOUR = CronField("*", frozenset(range(24)))
EVERY_WEEKDAY = CronField("*", frozenset(range(7)))


def starred(low: int, high: int) -> st.SearchStrategy[CronField]:
    whole = range(low, high + 1)
    return st.just(CronField("*", frozenset(whole))) | st.integers(1, len(whole)).map(
        lambda step: CronField(f"*/{step}", frozenset(whole[::step]))
    )


@st.composite
def terms(draw: st.DrawFn, low: int, high: int, top: int, names: Sequence[str]) -> CronField:
    first, last = sorted(draw(st.tuples(st.integers(low, high), st.integers(low, high))))
    step = draw(st.integers(1, 7))
    values = range(first, last + 1)
    start = draw(
        st.sampled_from([str(first), f"{first:02}", *names[first - low : first - low + 1]])
    )
    return draw(
        st.sampled_from(
            [
                CronField(start, frozenset([first])),
                CronField(f"{start}-{last}", frozenset(values)),
                CronField(f"{start}-{last}/{step}", frozenset(values[::step])),
                CronField(f"{start}/{step}", frozenset(range(first, top + 1, step))),
            ]
        )
    )


def lists(low: int, high: int, top: int, names: Sequence[str] = ()) -> st.SearchStrategy[CronField]:
    return st.lists(terms(low, high, top, names), min_size=1, max_size=3).map(
        lambda items: CronField(
            ",".join(item.text for item in items),
            frozenset[int]().union(*(item.values for item in items)),
        )
    )


@dataclass(frozen=True)
class Line:
    """A cron line and its meaning as a pattern of the oracle."""

    text: str
    pattern: Pattern


@st.composite
def any_lines(draw: st.DrawFn) -> Line:
    minute = draw(starred(0, 59) | lists(0, 59, 59))
    hour = draw(starred(0, 23) | lists(0, 4, 23) | lists(0, 23, 23) | lists(22, 23, 23))
    day = draw(st.just(EVERY_DAY) | starred(1, 31) | lists(1, 31, 31))
    month = draw(st.just(EVERY_MONTH) | lists(1, 12, 12, MONTHS))
    weekday = draw(starred(0, 6) | lists(0, 7, 7, WEEKDAYS))
    fields = (minute, hour, day, month, weekday)
    pattern = Pattern(
        minute.values,
        hour.values,
        day.values,
        month.values,
        frozenset(number % 7 for number in weekday.values),
        either=not (day.text.startswith("*") or weekday.text.startswith("*")),
    )
    return Line(" ".join(field.text for field in fields), pattern)


def has_a_day(line: Line) -> bool:
    longest = max(monthrange(2024, month)[1] for month in line.pattern.months)
    return line.pattern.either or min(line.pattern.days) <= longest


lines = any_lines().filter(has_a_day)
extended_lines = st.builds(
    "{} {} {} * {}".format,
    st.sampled_from(["0", "30", "*/20"]),
    st.sampled_from(["*", "2", "1-3", "0,23"]),
    st.sampled_from(["*", "L", "LW", "15,L", "29-31"]),
    st.sampled_from(["*", "5L", "mon#2", "friL", "0#5", "7#1,3", "sat-sun"]),
)
texts = lines.map(lambda line: line.text) | extended_lines
instants = st.datetimes(datetime(1975, 1, 1), datetime(2095, 1, 1), timezones=st.just(UTC))
zones = st.sampled_from(sorted({zone for zone, _ in NIGHTS})).map(ZoneInfo)


def field(rng: Random, low: int, high: int, top: int, names: Sequence[str] = ()) -> CronField:
    """Values up to `high` in a field that goes up to `top`."""
    first, last = sorted(rng.choices(range(low, high + 1), k=2))
    step = rng.randint(2, 7)
    name = names[first - low] if names else str(first)
    return rng.choice(
        [
            CronField(name, frozenset([first])),
            CronField(f"{first},{last}", frozenset([first, last])),
            CronField(f"{name}-{last}", frozenset(range(first, last + 1))),
            CronField(f"{first}-{last}/{step}", frozenset(range(first, last + 1, step))),
            CronField(f"*/{step}", frozenset(range(low, top + 1, step))),
        ]
    )


def any_line(rng: Random) -> Line:
    minute = field(rng, 0, 59, 59)
    hour = rng.choice([EVERY_HOUR, field(rng, 0, 23, 23), field(rng, 0, 4, 23)])
    day = rng.choice([EVERY_DAY, field(rng, 1, 31, 31)])
    month = rng.choice([EVERY_MONTH, field(rng, 1, 12, 12, MONTHS)])
    weekday = rng.choice([EVERY_WEEKDAY, field(rng, 0, 6, 6, WEEKDAYS)])
    pattern = Pattern(
        minute.values,
        hour.values,
        day.values,
        month.values,
        weekday.values,
        either=not (day.text.startswith("*") or weekday.text.startswith("*")),
    )
    return Line(" ".join(each.text for each in (minute, hour, day, month, weekday)), pattern)


def moments_a_year(line: Line) -> int:
    time = timedelta(hours=min(line.pattern.hours), minutes=min(line.pattern.minutes))
    days = (datetime(2025, 1, 1) + timedelta(days=number) + time for number in range(365))
    times_a_day = len(line.pattern.hours) * len(line.pattern.minutes)
    return times_a_day * sum(map(line.pattern.matches, days))


def once(wall: datetime) -> Pattern:
    fields = (wall.minute, wall.hour, wall.day, wall.month)
    minute, hour, day, month = (frozenset([value]) for value in fields)
    return Pattern(minute, hour, day, month, EVERY_WEEKDAY.values, either=False)
