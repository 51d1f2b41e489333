"""When an event is to be, by the words of a command."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from ollim_bot.features.calendars.cal_command import moved_span, read_span
from ollim_bot.kernel.base.errors import WrongInput

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY = datetime(2026, 11, 16, 10, 0, tzinfo=BERLIN)


def clock(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("start", "end", "begins", "ends"),
    [
        ("tomorrow 14:00", "15:30", clock(17, 14), clock(17, 15, 30)),
        ("tomorrow 14:00", "1h", clock(17, 14), clock(17, 15)),
        ("tomorrow 14:00", "90 minutes", clock(17, 14), clock(17, 15, 30)),
        ("tomorrow 23:00", "01:00", clock(17, 23), clock(18, 1)),
        ("tomorrow 2pm", "3pm", clock(17, 14), clock(17, 15)),
        ("2026-11-20T09:00", "2026-11-20T10:00", clock(20, 9), clock(20, 10)),
        ("2026-11-20 09:00", "2026-11-21 10:00", clock(20, 9), clock(21, 10)),
        ("2026-11-10T09:00", "1h", clock(10, 9), clock(10, 10)),
        ("friday 10:00", "friday 11:00", clock(20, 10), clock(20, 11)),
    ],
)
def test_a_time_ends_at_a_time_or_after_a_length(
    start: str, end: str, begins: datetime, ends: datetime
) -> None:
    assert read_span(start, end, MONDAY) == (begins, ends, False)


@pytest.mark.parametrize(
    ("start", "end", "first", "after"),
    [
        ("2026-11-20", "2026-11-20", date(2026, 11, 20), date(2026, 11, 21)),
        ("2026-11-20", "2026-11-22", date(2026, 11, 20), date(2026, 11, 23)),
        ("tomorrow", "tomorrow", date(2026, 11, 17), date(2026, 11, 18)),
        ("2026-12-31", "2027-01-01", date(2026, 12, 31), date(2027, 1, 2)),
    ],
)
def test_whole_days_last_through_the_last(start: str, end: str, first: date, after: date) -> None:
    assert read_span(start, end, MONDAY) == (first, after, True)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("tomorrow 14:00", "tomorrow 13:00"),
        ("tomorrow 14:00", "tomorrow 14:00"),
        ("tomorrow 14:00", "friday"),
        ("2026-11-20", "15:00"),
        ("2026-11-20", "2026-11-19"),
        ("someday", "1h"),
        ("2026-13-40", "1h"),
        ("tomorrow 14:00", "soon"),
    ],
)
def test_what_is_no_span_is_refused(start: str, end: str) -> None:
    with pytest.raises(WrongInput):
        read_span(start, end, MONDAY)


def test_a_moved_event_keeps_its_length_also_over_a_clock_change() -> None:
    start = datetime(2026, 10, 24, 23, 0, tzinfo=BERLIN)
    end = datetime(2026, 10, 25, 4, 0, tzinfo=BERLIN)
    moved = moved_span(start, end, clock(20, 9))
    assert moved == (clock(20, 9), clock(20, 15), False)
    days = moved_span(date(2026, 11, 1), date(2026, 11, 3), date(2026, 11, 30))
    assert days == (date(2026, 11, 30), date(2026, 12, 2), True)
    with pytest.raises(WrongInput, match="give --start and --end"):
        moved_span(date(2026, 11, 1), date(2026, 11, 3), clock(20, 9))
    assert moved_span(start, start + timedelta(hours=1), clock(2, 9)).end == clock(2, 10)
