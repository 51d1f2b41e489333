"""Repeats beyond cron are due when a walk through the days of two years says so."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.values.cron_oracle import MINUTE, quarters

from ollim_bot.kernel.base.errors import BadRepeat
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.repeats import AfterDone, DayRule, Repeat, read_rhythm

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = (BERLIN, ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe"))
FIRST, LAST = date(2026, 1, 1), date(2027, 12, 31)
NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
PLACES = ("first", "second", "third", "fourth", "last")
# Some of them lie in an hour that is skipped or comes twice.
CLOCKS = ((time(9),), (time(2, 30),), (time(1, 45), time(2), time(21, 5)), (time(0), time(23, 59)))
RULES = (
    *(f"{count} days" for count in (1, 2, 3, 10, 45)),
    *(f"{count} weeks" for count in (1, 2, 3, 6)),
    *(f"{count} months" for count in (1, 2, 3, 6, 12)),
    "last day of the month",
    *(f"{place} {name} of the month" for place in PLACES for name in NAMES),
)
STARTS = (date(2026, 1, 1), date(2025, 11, 30), date(2024, 2, 29), date(2026, 3, 28), FIRST)
RHYTHMS = [
    (rule, CLOCKS[number % len(CLOCKS)], STARTS[number % len(STARTS)])
    for number, rule in enumerate([*RULES, *("1 month", "2 months", "5 months", "11 months")])
] + [
    (f"{count} months", (time(2, 15),), date(2025, 12, day))
    for count in (1, 2, 3, 7)
    for day in (29, 30, 31)
]


def matches(rule: str, start: date, day: date) -> bool:
    """Whether a day is one of the rule, by looking at that day alone."""
    words = rule.split()
    last = monthrange(day.year, day.month)[1]
    if words[-1] == "month" and words[0] in PLACES:
        if words[1] == "day":
            return day.day == last
        is_place = {
            "last": day.day > last - 7,
            **{place: (day.day - 1) // 7 == number for number, place in enumerate(PLACES[:4])},
        }
        return NAMES[day.weekday()] == words[1] and is_place[words[0]]
    count, unit = int(words[0]), words[1].rstrip("s")
    if unit == "month":
        months = (day.year - start.year) * 12 + day.month - start.month
        return months % count == 0 and day.day == min(start.day, last)
    return (day - start).days % (count * (7 if unit == "week" else 1)) == 0


@cache
def shown(zone: ZoneInfo) -> dict[datetime, datetime]:
    """The instant of each quarter of an hour by the wall, and of each minute that is skipped."""
    begin = datetime(FIRST.year - 1, 12, 30, tzinfo=UTC)
    found: dict[datetime, datetime] = {}
    for instant, wall, skipped, _ in quarters(zone, begin, begin + timedelta(days=740)):
        found.setdefault(wall, instant)
        found.update((left_out, instant) for left_out in skipped)
    return found


def walked(
    rule: str, clocks: tuple[time, ...], start: date, zone: ZoneInfo, last: date = LAST
) -> Iterator[datetime]:
    day, latest = max(start, FIRST), None
    while day <= last:
        for at in clocks if matches(rule, start, day) else ():
            wall = datetime.combine(day, at)
            quarter = wall.replace(minute=wall.minute // 15 * 15)
            exact = shown(zone).get(wall) or shown(zone)[quarter] + wall.minute % 15 * MINUTE
            if exact != latest:
                yield exact
            latest = exact
        day += timedelta(days=1)


@pytest.mark.parametrize("zone", ZONES, ids=str)
def test_sixty_rhythms_are_due_as_a_walk_through_the_days_says(zone: ZoneInfo) -> None:
    begin = datetime.combine(FIRST, time(), zone)
    end = datetime.combine(LAST + timedelta(days=1), time(), zone)
    assert len(RHYTHMS) >= 60
    for rule, clocks, start in RHYTHMS:
        repeat = Repeat(DayRule.parse(rule), clocks, start)
        expected = [*walked(rule, clocks, start, zone)]
        found = [moment.astimezone(UTC) for moment in repeat.between(begin, end, zone)]
        assert found == expected, repeat
        for earlier, later in [*pairwise(expected)][::17]:
            assert in_utc(repeat.next(earlier, zone)) == later
            assert in_utc(repeat.previous(later, zone)) == earlier
            assert in_utc(repeat.previous(later + MINUTE, zone)) == later


def in_utc(moment: datetime | None) -> datetime | None:
    """Python finds two instants of different zones unequal in an hour that comes twice."""
    return moment and moment.astimezone(UTC)


@pytest.mark.parametrize(
    ("repeat", "count", "last"),
    [
        (Repeat(DayRule.parse("2 days"), (time(9),), FIRST, times=3), 3, date(2026, 1, 5)),
        (Repeat(DayRule.parse("1 day"), (time(9), time(20)), FIRST, times=3), 3, date(2026, 1, 2)),
        (
            Repeat(DayRule.parse("1 month"), (time(9),), date(2026, 1, 31), date(2026, 4, 30)),
            4,
            date(2026, 4, 30),
        ),
        (Repeat(Cron.parse("0 9 * * 1"), (), FIRST, times=2), 2, date(2026, 1, 12)),
        (Repeat(Cron.parse("0 9 * * 1"), until=date(2026, 1, 19)), 3, date(2026, 1, 19)),
    ],
)
def test_a_repeat_ends_after_its_last_time_or_day(repeat: Repeat, count: int, last: date) -> None:
    begin = datetime.combine(FIRST, time(), BERLIN)
    moments = [*repeat.moments_from(begin, BERLIN)]
    assert (len(moments), moments[-1].date()) == (count, last)
    assert repeat.next(moments[-1], BERLIN) is None
    assert repeat.previous(moments[-1] + timedelta(days=400), BERLIN) == moments[-1]
    if repeat.start:
        assert repeat.previous(moments[0], BERLIN) is None


def test_what_follows_done_comes_its_days_after_the_answer() -> None:
    rhythm = AfterDone(3, time(9), FIRST)
    first = datetime(2026, 1, 1, 9, tzinfo=BERLIN)
    assert rhythm.next(first - MINUTE, BERLIN) == first
    assert rhythm.next(first, BERLIN) is None
    planned = rhythm.after_answer(datetime(2026, 1, 2, 23, 30, tzinfo=BERLIN), BERLIN)
    assert planned == datetime(2026, 1, 5, 9, tzinfo=BERLIN)
    assert replace(rhythm, done_on=date(2026, 1, 2)).next(first, BERLIN) == planned


@given(
    rule=st.sampled_from(RULES),
    at=st.lists(st.times().map(lambda at: at.replace(second=0, microsecond=0)), min_size=1),
    start=st.dates(FIRST, LAST),
    until=st.none() | st.dates(LAST),
    times=st.none() | st.integers(1, 100),
)
def test_the_text_of_a_repeat_reads_back(
    rule: str, at: list[time], start: date, until: date | None, times: int | None
) -> None:
    clocks = tuple(sorted(set(at)))[:24]
    repeat = Repeat(DayRule.parse(rule), clocks, start, until, times)
    assert read_rhythm(repeat.text) == repeat
    of_cron = Repeat(Cron.parse("0 9 * * 1-5"), (), start, until, times)
    assert read_rhythm(of_cron.text) == of_cron
    after = AfterDone(9, clocks[0], start)
    assert read_rhythm(after.text) == after


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("every 2 weeks at 9:00 from 2026-11-17", "At 9:00 every 2 weeks on Tuesday"),
        ("every 1 day at 9:00, 21:30 from 2026-11-17", "At 9:00 and 21:30 every day"),
        (
            "every last day of the month at 9:00 from 2026-11-17",
            "At 9:00 on the last day of every month",
        ),
        (
            "every first monday of the month at 18:00 from 2026-11-17 times 5",
            "At 18:00 on the first Monday of every month, 5 times",
        ),
        (
            "every 3 months at 9:00 from 2026-08-31 times 4",
            "At 9:00 every 3 months on the 31st, or the last day of a shorter month, 4 times",
        ),
        ("cron 0 9 * * 1 until 2026-12-24", "At 9:00 on Monday, until 24 Dec 2026"),
        ("after-done 2 weeks at 9:00 from 2026-11-17", "At 9:00, 2 weeks after it is done"),
        ("0 9 * * 1", "At 9:00 on Monday"),
    ],
)
def test_a_rhythm_is_told_in_words(text: str, words: str) -> None:
    assert read_rhythm(text).explain() == words


@pytest.mark.parametrize(
    "text", ["0 days", "1000 days", "fifth monday of the month", "2 years", "monday", "", "-1 days"]
)
def test_a_wrong_rule_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(BadRepeat, match=r"2 weeks|the number is 1 to 999"):
        DayRule.parse(text)
