"""Merging, choosing and describing events, in the zone of the bot."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.kernel.values.calendar import (
    BusyPeriod,
    CalendarCopy,
    CalendarEvent,
    age_words,
    between,
    busy_periods,
    event_row,
    find_event,
    free_name,
    name_problem,
    time_words,
    today,
    upcoming,
)

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 16, 9, 12, tzinfo=BERLIN)


def timed(
    event_id: str,
    start: str,
    end: str,
    calendar: str = "Work",
    *,
    location: str = "",
    description: str = "",
    is_busy: bool = True,
) -> CalendarEvent:
    return CalendarEvent(
        event_id,
        calendar,
        event_id.title(),
        datetime.fromisoformat(start).replace(tzinfo=BERLIN),
        datetime.fromisoformat(end).replace(tzinfo=BERLIN),
        location=location,
        description=description,
        is_busy=is_busy,
    )


def whole_days(event_id: str, start: str, end: str) -> CalendarEvent:
    first, last = date.fromisoformat(start), date.fromisoformat(end)
    return CalendarEvent(event_id, "Work", event_id.title(), first, last, all_day=True)


def copy(*events: CalendarEvent, name: str = "Work") -> CalendarCopy:
    return CalendarCopy(name, "calendar.example (hidden)", events, as_of=NOW)


def ids(events: tuple[CalendarEvent, ...]) -> list[str]:
    return [event.id for event in events]


def test_today_has_what_is_on_at_any_moment_of_the_day() -> None:
    events = copy(
        timed("late", "2026-11-16T23:30", "2026-11-17T00:30"),
        timed("over", "2026-11-16T07:00", "2026-11-16T08:00"),
        timed("night", "2026-11-15T22:00", "2026-11-16T06:00"),
        timed("yesterday", "2026-11-15T23:00", "2026-11-16T00:00"),
        timed("tomorrow", "2026-11-17T00:00", "2026-11-17T01:00"),
        whole_days("birthday", "2026-11-16", "2026-11-17"),
        whole_days("trip", "2026-11-10", "2026-11-20"),
        whole_days("gone", "2026-11-15", "2026-11-16"),
        timed("mark", "2026-11-16T00:00", "2026-11-16T00:00"),
    )
    assert ids(today([events], NOW)) == ["trip", "night", "birthday", "mark", "over", "late"]


def test_upcoming_leaves_out_what_is_over_and_ends_at_the_same_time_of_day() -> None:
    events = copy(
        timed("over", "2026-11-16T08:00", "2026-11-16T09:00"),
        timed("on", "2026-11-16T09:00", "2026-11-16T10:00"),
        timed("last", "2026-11-23T09:11", "2026-11-23T10:00"),
        timed("beyond", "2026-11-23T09:12", "2026-11-23T10:00"),
    )
    assert ids(upcoming([events], NOW, 7)) == ["on", "last"]


def test_an_all_day_event_is_a_day_of_the_zone_of_the_bot() -> None:
    holiday = copy(whole_days("holiday", "2026-11-16", "2026-11-17"))
    auckland = datetime(2026, 11, 16, 0, 30, tzinfo=ZoneInfo("Pacific/Auckland"))
    assert ids(today([holiday], auckland)) == ["holiday"]
    assert ids(today([holiday], auckland - timedelta(hours=1))) == []


def test_overlapping_events_of_one_calendar_are_one_busy_period() -> None:
    work = copy(
        timed("one", "2026-11-16T14:00", "2026-11-16T15:00"),
        timed("two", "2026-11-16T14:30", "2026-11-16T15:30"),
        timed("touching", "2026-11-16T15:30", "2026-11-16T16:00"),
        timed("free", "2026-11-16T17:00", "2026-11-16T18:00", is_busy=False),
        timed("point", "2026-11-16T19:00", "2026-11-16T19:00"),
        whole_days("holiday", "2026-11-16", "2026-11-17"),
    )
    home = copy(timed("three", "2026-11-16T14:00", "2026-11-16T14:10", "Home"), name="Home")
    at = NOW.replace(hour=14, minute=0)
    assert busy_periods([work, home], NOW, NOW + timedelta(days=1)) == (
        BusyPeriod(at, at.replace(minute=10), "Home"),
        BusyPeriod(at, at.replace(hour=16), "Work"),
    )


def test_a_row_for_programs_has_exactly_the_promised_fields() -> None:
    event = timed(
        "one", "2026-11-16T14:00", "2026-11-16T15:00", location="Room 5", description="bring it"
    )
    failed = copy(event).failed("The address answered 404.", NOW)
    assert event_row(event, failed, ZoneInfo("America/New_York")) == {
        "id": "one",
        "calendar": "Work",
        "summary": "One",
        "start": "2026-11-16T08:00:00-05:00",
        "end": "2026-11-16T09:00:00-05:00",
        "all_day": False,
        "location": "Room 5",
        "description": "bring it",
        "as_of": "2026-11-16T03:12:00-05:00",
        "problem": "The address answered 404.",
    }
    trip = whole_days("trip", "2026-11-10", "2026-11-20")
    row = event_row(trip, copy(trip), BERLIN)
    assert (row["start"], row["end"], row["problem"]) == ("2026-11-10", "2026-11-20", None)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (timed("a", "2026-11-16T14:00", "2026-11-16T15:00"), "14:00–15:00"),
        (timed("a", "2026-11-16T14:00", "2026-11-16T14:00"), "14:00"),
        (timed("a", "2026-11-16T22:00", "2026-11-17T00:00"), "22:00–0:00"),
        (timed("a", "2026-11-16T22:00", "2026-11-17T06:00"), "22:00–Tue 17 Nov 6:00"),
        (whole_days("a", "2026-11-16", "2026-11-17"), "all day"),
        (whole_days("a", "2026-11-16", "2027-01-03"), "all day until Sat 2 Jan 2027"),
    ],
)
def test_the_time_of_an_event_in_words(event: CalendarEvent, words: str) -> None:
    assert time_words(event, NOW) == words


def test_the_age_of_a_copy_in_words() -> None:
    assert age_words(copy(), NOW) == "as of 9:12"
    assert age_words(copy(), NOW + timedelta(days=1)) == "as of Mon 16 Nov 9:12"
    assert age_words(CalendarCopy("Work", ""), NOW) == "never read"


def test_a_failing_calendar_is_to_be_told_after_a_day() -> None:
    failing = copy().failed("no", NOW).failed("still no", NOW + timedelta(hours=20))
    assert failing.problem == "still no"
    assert not failing.is_to_be_told(NOW + timedelta(hours=23))
    assert failing.is_to_be_told(NOW + timedelta(hours=24))


def test_a_copy_is_fresh_for_a_quarter_of_an_hour() -> None:
    assert copy().is_fresh(NOW + timedelta(minutes=14))
    assert not copy().is_fresh(NOW + timedelta(minutes=15))
    assert not copy().is_fresh(NOW - timedelta(days=1))
    assert not CalendarCopy("Work", "").is_fresh(NOW)


def test_names_of_calendars() -> None:
    assert name_problem("Work") == ""
    assert all(map(name_problem, ["", " ", " Work", "a\nb", "a\x1bb", "x" * 41]))
    assert name_problem("work", ["Work"]) == "There is a calendar of that name already"
    assert (free_name([]), free_name(["calendar", "Calendar 2"])) == ("Calendar", "Calendar 3")


MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31)).map(
    lambda wall: wall.replace(tzinfo=UTC)
)
EVENTS = st.builds(
    lambda start, hours, shift, all_day: (
        (start.date(), start.date() + timedelta(days=1 + hours // 24), True)
        if all_day
        else (
            start.astimezone(timezone(timedelta(hours=shift))),
            start + timedelta(hours=hours),
            False,
        )
    ),
    MOMENTS,
    st.integers(0, 100),
    st.integers(-12, 12),
    st.booleans(),
)


@given(st.lists(st.lists(EVENTS, max_size=6), max_size=4))
def test_merging_keeps_time_order_and_loses_nothing(
    calendars: list[list[tuple[date, date, bool]]],
) -> None:
    copies = [
        copy(
            *(
                CalendarEvent(f"{number}-{at}", f"{number}", "", start, end, all_day)
                for at, (start, end, all_day) in enumerate(events)
            ),
            name=f"{number}",
        )
        for number, events in enumerate(calendars)
    ]
    found = between(
        copies, datetime(2000, 1, 1, tzinfo=BERLIN), datetime(2100, 1, 1, tzinfo=BERLIN)
    )
    assert sorted(ids(found)) == sorted(each.id for copy in copies for each in copy.events)
    begins = [event.begins(BERLIN).astimezone(UTC) for event in found]
    assert begins == sorted(begins)
    assert all(find_event(copies, each.id) == each for each in found)
