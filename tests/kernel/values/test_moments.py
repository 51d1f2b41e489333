"""From wall-clock times to instants, and from instants to words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from ollim_bot.kernel.base.moments import (
    clock_change,
    clock_time,
    describe,
    describe_with_distance,
    duration_in_words,
    elapsed,
    instant,
    later,
    offset_at,
)

NEW_YORK = ZoneInfo("America/New_York")

BERLIN = ZoneInfo("Europe/Berlin")

LORD_HOWE = ZoneInfo("Australia/Lord_Howe")

ST_JOHNS = ZoneInfo("America/St_Johns")

SECOND = timedelta(seconds=1)

Change = tuple[tzinfo, datetime, datetime]

GAPS: list[Change] = [
    (NEW_YORK, datetime(2025, 3, 9, 2), datetime(2025, 3, 9, 3)),
    (BERLIN, datetime(2025, 3, 30, 2), datetime(2025, 3, 30, 3)),
    (LORD_HOWE, datetime(2025, 10, 5, 2), datetime(2025, 10, 5, 2, 30)),
    (ST_JOHNS, datetime(2010, 3, 14, 0, 1), datetime(2010, 3, 14, 1, 1)),
    (ZoneInfo("Africa/Cairo"), datetime(2024, 4, 26), datetime(2024, 4, 26, 1)),
    (ZoneInfo("Africa/Casablanca"), datetime(2024, 4, 14, 2), datetime(2024, 4, 14, 3)),
    (ZoneInfo("Africa/Monrovia"), datetime(1972, 1, 7), datetime(1972, 1, 7, 0, 44, 30)),
    (ZoneInfo("America/Santiago"), datetime(2024, 9, 8), datetime(2024, 9, 8, 1)),
    (ZoneInfo("Asia/Pyongyang"), datetime(2018, 5, 4, 23, 30), datetime(2018, 5, 5)),
    (ZoneInfo("Pacific/Apia"), datetime(2011, 12, 30), datetime(2011, 12, 31)),
]

FOLDS: list[Change] = [
    (NEW_YORK, datetime(2025, 11, 2, 1), datetime(2025, 11, 2, 2)),
    (BERLIN, datetime(2025, 10, 26, 2), datetime(2025, 10, 26, 3)),
    (LORD_HOWE, datetime(2025, 4, 6, 1, 30), datetime(2025, 4, 6, 2)),
    (ST_JOHNS, datetime(2010, 11, 6, 23, 1), datetime(2010, 11, 7, 0, 1)),
    (ZoneInfo("Africa/Casablanca"), datetime(2024, 3, 10, 2), datetime(2024, 3, 10, 3)),
    (ZoneInfo("Europe/Dublin"), datetime(2025, 10, 26, 1), datetime(2025, 10, 26, 2)),
]

zones: st.SearchStrategy[tzinfo] = st.sampled_from(
    [
        UTC,
        timezone(timedelta(hours=5, minutes=45)),
        ZoneInfo("Asia/Kolkata"),
        *{zone for zone, _, _ in GAPS + FOLDS},
    ]
)

near_changes = st.builds(
    lambda change, distance: (change[0], change[1] + distance),
    st.sampled_from(GAPS + FOLDS),
    st.timedeltas(timedelta(days=-1), timedelta(days=2)),
)

places = near_changes | st.tuples(zones, st.datetimes(datetime(1970, 1, 2), datetime(2100, 12, 31)))

millionths = st.integers(0, 999_999)


def shown(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None, fold=0)


def passed(moment: datetime, length: timedelta) -> datetime:
    """What the clocks of its zone show when that time has really passed."""
    return (moment.astimezone(UTC) + length).astimezone(moment.tzinfo)


@settings(max_examples=examples(3))
@given(places)
def test_a_time_that_the_clocks_show_means_the_first_instant_at_which_they_do(
    place: tuple[tzinfo, datetime],
) -> None:
    zone, moment = place[0], place[1].replace(tzinfo=UTC, fold=0)
    local = moment.astimezone(zone)
    first = instant(shown(local), zone)
    assert (first.tzinfo, first.fold, shown(first)) == (zone, 0, shown(local))
    assert (first.astimezone(UTC) == moment) == (local.fold == 0)


@given(st.sampled_from(GAPS), millionths)
def test_a_time_that_does_not_exist_means_the_end_of_the_gap(gap: Change, part: int) -> None:
    zone, start, end = gap
    moment = instant(start + part * (end - start) // 10**6, zone)
    assert shown(moment) == end
    assert shown(passed(moment, -SECOND)) == start - SECOND


@given(st.sampled_from(FOLDS), millionths)
def test_a_time_that_exists_twice_means_the_first(fold: Change, part: int) -> None:
    zone, start, end = fold
    wall = start + part * (end - start) // 10**6
    first = instant(wall, zone)
    again = passed(first, end - start)
    assert (shown(first), first.fold) == (wall, 0)
    assert (shown(again), again.fold) == (wall, 1)


@settings(max_examples=examples(3))
@given(places, st.timedeltas(timedelta(0), timedelta(hours=3)))
def test_the_order_of_times_is_kept(place: tuple[tzinfo, datetime], distance: timedelta) -> None:
    zone, wall = place
    earlier, later = instant(wall, zone), instant(wall + distance, zone)
    assert earlier.astimezone(UTC) <= later.astimezone(UTC)


@given(places, zones)
def test_an_instant_stays_the_same_in_another_zone(
    place: tuple[tzinfo, datetime], there: tzinfo
) -> None:
    moment = instant(place[1], place[0])
    moved = instant(moment, there)
    assert moved.tzinfo == there
    assert moved.astimezone(UTC) == moment.astimezone(UTC)


def test_an_instant_never_shows_a_time_that_does_not_exist() -> None:
    unreal = datetime(2025, 3, 9, 2, 30, tzinfo=NEW_YORK)
    assert shown(instant(unreal, NEW_YORK)) == datetime(2025, 3, 9, 3, 30)


@given(places)
def test_an_offset_is_what_the_clocks_are_ahead(place: tuple[tzinfo, datetime]) -> None:
    zone, wall = place
    moment = wall.replace(tzinfo=UTC)
    assert wall + offset_at(moment, zone) == shown(moment.astimezone(zone))


@given(
    st.sampled_from(GAPS + FOLDS),
    st.timedeltas(timedelta.resolution, timedelta(days=1)),
    st.timedeltas(timedelta(0), timedelta(days=1)),
)
def test_a_change_of_the_clocks_is_found_to_the_second(
    change: Change, before: timedelta, after: timedelta
) -> None:
    zone, start, end = change
    last = passed(instant(start - SECOND, zone), timedelta(0) if change in GAPS else end - start)
    moment = last.astimezone(UTC) + SECOND
    assert clock_change(moment - before, moment + after, zone) == moment


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 1, 1, 9), "9:00"),
        (datetime(2026, 1, 1, 0, 0), "0:00"),
        (datetime(2026, 1, 1, 15, 5), "15:05"),
        (datetime(2026, 1, 1, 15, 5, 7), "15:05:07"),
        (datetime(2026, 1, 1, 15, 5, 0, 999), "15:05"),
    ],
)
def test_the_time_of_day(moment: datetime, text: str) -> None:
    assert clock_time(moment) == text


NOW = datetime(2026, 11, 15, 14, 30, tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 11, 15, 15, tzinfo=BERLIN), "today 15:00"),
        (datetime(2026, 11, 15, 0, 5, tzinfo=BERLIN), "today 0:05"),
        (datetime(2026, 11, 16, 9, tzinfo=BERLIN), "tomorrow 9:00"),
        (datetime(2026, 11, 14, 23, 59, tzinfo=BERLIN), "yesterday 23:59"),
        (datetime(2026, 11, 17, 9, tzinfo=BERLIN), "Tue 17 Nov 09:00"),
        (datetime(2026, 11, 17, 9, 0, 5, tzinfo=BERLIN), "Tue 17 Nov 09:00"),
        (datetime(2027, 1, 1, 9, tzinfo=BERLIN), "Fri 1 Jan 2027 09:00"),
        (datetime(2026, 11, 15, 23, 30, tzinfo=UTC), "tomorrow 0:30"),
    ],
)
def test_a_moment_in_words(moment: datetime, text: str) -> None:
    assert describe(moment, NOW) == text


def test_the_last_day_of_the_year_is_yesterday_on_the_first() -> None:
    new_year = datetime(2027, 1, 1, 0, 1, tzinfo=BERLIN)
    assert describe(datetime(2026, 12, 31, 22, tzinfo=BERLIN), new_year) == "yesterday 22:00"


@pytest.mark.parametrize(
    ("moment", "now", "text"),
    [
        (datetime(2026, 11, 16, 9, tzinfo=BERLIN), NOW, "tomorrow 9:00 (in 18 h 30 min)"),
        (datetime(2026, 11, 15, 14, 10, tzinfo=BERLIN), NOW, "today 14:10 (20 min ago)"),
        (NOW, NOW, "today 14:30 (now)"),
        (NOW, passed(NOW, 0.4 * SECOND), "today 14:30 (now)"),
        (
            datetime(2026, 3, 8, 9, tzinfo=NEW_YORK),
            datetime(2026, 3, 7, 9, tzinfo=NEW_YORK),
            "tomorrow 9:00 (in 23 h)",
        ),
        (
            datetime(2026, 11, 1, 9, tzinfo=NEW_YORK),
            datetime(2026, 10, 31, 9, tzinfo=NEW_YORK),
            "tomorrow 9:00 (in 1 d 1 h)",
        ),
        (
            datetime(2026, 11, 1, 1, 30, tzinfo=NEW_YORK),
            datetime(2026, 11, 1, 1, 40, fold=1, tzinfo=NEW_YORK),
            "today 1:30 (1 h 10 min ago)",
        ),
    ],
)
def test_the_distance_is_the_time_that_really_passes(
    moment: datetime, now: datetime, text: str
) -> None:
    assert describe_with_distance(moment, now) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (45, "45 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (60, "1 min"),
        (90, "1 min 30 s"),
        (1200, "20 min"),
        (119, "1 min 59 s"),
        (125, "2 min"),
        (3569, "59 min"),
        (3599, "1 h"),
        (3599.9, "1 h"),
        (3629, "1 h"),
        (3631, "1 h 1 min"),
        (7197, "2 h"),
        (86_369, "23 h 59 min"),
        (86_399.7, "1 d"),
        (86_400 + 1799, "1 d"),
        (3 * 86_400 + 4 * 3600, "3 d 4 h"),
        (3 * 86_400 - 60, "3 d"),
        (400 * 86_400, "400 d"),
    ],
)
def test_a_length_of_time_in_words(seconds: float, text: str) -> None:
    assert duration_in_words(timedelta(seconds=seconds)) == text


@given(
    near_changes,
    st.timedeltas(timedelta(0), timedelta(days=2)),
    st.sampled_from([SECOND, timedelta(minutes=1)]),
)
def test_later_is_never_early_and_less_than_a_unit_late(
    place: tuple[tzinfo, datetime], length: timedelta, unit: timedelta
) -> None:
    zone, wall = place
    now = instant(wall, zone)
    moment = later(now, length, unit)
    assert moment.tzinfo is zone
    assert timedelta(0) <= elapsed(now, moment) - length < unit
    assert moment.timestamp() % unit.total_seconds() == 0


def test_what_has_passed_does_not_depend_on_the_clocks() -> None:
    evening, morning = datetime(2025, 3, 29, 22), datetime(2025, 3, 30, 8)
    since, now = (wall.replace(tzinfo=BERLIN) for wall in (evening, morning))
    assert elapsed(since, now) == timedelta(hours=9)
    assert elapsed(now, since) == timedelta(hours=-9)


@pytest.mark.parametrize(
    ("ahead", "shown"),
    [
        (75.0, "today 1:06 (in 1 min 15 s)"),
        (119.4, "today 1:07 (in 1 min 59 s)"),
        (120.0, "today 1:07 (in 2 min)"),
        (-30.0, "today 1:04 (30 s ago)"),
        (86_430.2, "tomorrow 1:05 (in 1 d)"),
    ],
)
def test_seconds_are_left_below_two_minutes_and_are_in_no_time_of_day(
    ahead: float, shown: str
) -> None:
    now = datetime(2026, 11, 17, 1, 5, 23, 689954, tzinfo=BERLIN)
    moment = now + timedelta(seconds=ahead)
    assert describe_with_distance(moment, now) == shown
    assert describe(now, now, is_exact=True) == "today 1:05:23"
