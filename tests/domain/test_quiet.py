"""Quiet hours: when it is quiet, and until when, through clock changes and the owner's choices."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.strategies import instants, zones

from ollim_bot.domain.quiet import (
    QuietChoice,
    QuietHours,
    QuietSettings,
    ended_now,
    is_quiet,
    quiet_spans,
    quiet_until,
)

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = QuietHours.parse("22:00-07:00")
SETTINGS = QuietSettings(BERLIN, NIGHT)

hours = (
    st.lists(
        st.times().map(lambda each: each.replace(second=0, microsecond=0)),
        min_size=2,
        max_size=2,
        unique=True,
    )
    .map(lambda ends: QuietHours(*ends))
    .filter(lambda each: each.start != each.end)
)
choices = st.builds(QuietChoice, st.none() | instants, st.none() | instants)
all_settings = st.builds(QuietSettings, zones, st.none() | hours, choices)


def at(day: int, hour: int, minute: int = 0, month: int = 11) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=BERLIN)


def test_a_night_is_quiet_from_its_first_minute_until_before_its_end() -> None:
    assert [is_quiet(SETTINGS, at(16, hour)) for hour in (21, 22, 23, 0, 6, 7, 12)] == [
        *(False, True, True, True, True, False, False)
    ]
    assert quiet_until(SETTINGS, at(16, 23)) == at(17, 7)
    assert quiet_until(SETTINGS, at(17, 6, 59)) == at(17, 7)
    assert quiet_until(SETTINGS, at(17, 7)) is None


def test_hours_within_one_day_do_not_pass_midnight() -> None:
    nap = QuietSettings(BERLIN, QuietHours.parse("13:00-14:30"))
    assert quiet_until(nap, at(16, 13)) == at(16, 14, 30)
    assert not is_quiet(nap, at(16, 23))


@pytest.mark.parametrize(
    "text", ["", "22:00", "10-7", "25-7", "25:00-07:00", "22:00-22:00", "22pm-7am", "a-b"]
)
def test_what_is_no_span_of_a_day_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no|length|two ways"):
        QuietHours.parse(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (" 9:30 – 17:00 ", "09:30-17:00"),
        ("22-7", "22:00-07:00"),
        ("22 to 7.30", "22:00-07:30"),
        ("10pm-7am", "22:00-07:00"),
        ("from 10:30 PM until 12 am", "22:30-00:00"),
        ("22h-7h", "22:00-07:00"),
    ],
)
def test_a_span_is_read_as_people_write_it_and_written_in_one_way(text: str, written: str) -> None:
    assert str(QuietHours.parse(text)) == written


def test_an_end_that_comes_twice_in_autumn_ends_the_quiet_once() -> None:
    settings = QuietSettings(BERLIN, QuietHours.parse("22:00-02:30"))
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    end = quiet_until(settings, first - timedelta(hours=1))
    assert end is not None
    assert end.astimezone(UTC) == first
    assert not any(is_quiet(settings, first + timedelta(minutes=each)) for each in range(0, 180, 5))


def test_an_end_that_does_not_exist_in_spring_is_the_end_of_the_gap() -> None:
    settings = QuietSettings(BERLIN, QuietHours.parse("22:00-02:30"))
    end = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert quiet_until(settings, end - timedelta(hours=3)) == end


def test_a_chosen_quiet_that_reaches_into_the_hours_ends_with_them() -> None:
    chosen = QuietSettings(BERLIN, NIGHT, QuietChoice(until=at(16, 23)))
    assert quiet_until(chosen, at(16, 20)) == at(17, 7)
    short = QuietSettings(BERLIN, NIGHT, QuietChoice(until=at(16, 21)))
    assert quiet_until(short, at(16, 20)) == at(16, 21)


def test_ending_the_quiet_holds_for_this_night_only() -> None:
    lifted = QuietSettings(BERLIN, NIGHT, ended_now(SETTINGS, at(16, 23)))
    assert not is_quiet(lifted, at(16, 23))
    assert not is_quiet(lifted, at(17, 6, 59))
    assert is_quiet(lifted, at(17, 22))


@given(all_settings, instants)
def test_it_is_quiet_until_the_end_and_not_at_the_end(
    settings: QuietSettings, moment: datetime
) -> None:
    end = quiet_until(settings, moment)
    assert is_quiet(settings, moment) == (end is not None)
    if end is not None:
        assert end.astimezone(UTC) > moment.astimezone(UTC)
        assert not is_quiet(settings, end)
        assert is_quiet(settings, end.astimezone(UTC) - timedelta(microseconds=1))


@given(all_settings, instants)
def test_ending_the_quiet_ends_it_at_once(settings: QuietSettings, now: datetime) -> None:
    after = QuietSettings(settings.zone, settings.hours, ended_now(settings, now))
    assert not is_quiet(after, now)


@given(hours, zones, instants)
def test_away_from_clock_changes_the_clock_on_the_wall_decides(
    span: QuietHours, zone: ZoneInfo, moment: datetime
) -> None:
    local = moment.astimezone(zone)
    days = [local + timedelta(days=each) for each in (-2, 2)]
    if len({each.utcoffset() for each in (*days, local)}) == 1:
        assert is_quiet(QuietSettings(zone, span), moment) == span.has(local.time())


@given(zones, hours, instants, st.integers(0, 3000), st.integers(0, 7 * 24 * 60 - 1))
def test_the_spans_of_a_week_have_every_quiet_moment(
    zone: ZoneInfo, night: QuietHours, start: datetime, chosen: int, minutes: int
) -> None:
    moment = start.astimezone(UTC) + timedelta(minutes=minutes)
    end = start.astimezone(UTC) + timedelta(minutes=chosen)
    for choice in (QuietChoice(), QuietChoice(until=end), QuietChoice(lifted_until=end)):
        settings = QuietSettings(zone, night, choice)
        spans = quiet_spans(settings, start, start + timedelta(days=7))
        until = quiet_until(settings, moment)
        found = [end for begin, end in spans if begin <= moment < end]
        assert found == ([] if until is None else [until])
