"""The upkeep of a day is due once, from its hour on, also when the clock changes."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.domain.presence import DailyRecord, is_due

BERLIN = ZoneInfo("Europe/Berlin")
SPRING, AUTUMN = date(2026, 3, 29), date(2026, 10, 25)


def begun_on(day: date, hour: int, *, only_in_hour: bool) -> list[datetime]:
    """The moments at which a task begins when the clock is read each minute of three days."""
    begun: date | None = None
    found = []
    start = datetime.combine(day - timedelta(days=1), datetime.min.time(), BERLIN).astimezone(UTC)
    for minute in range(3 * 24 * 60):
        now = (start + timedelta(minutes=minute)).astimezone(BERLIN)
        if is_due(now, hour, begun, only_in_hour=only_in_hour):
            begun = now.date()
            found.append(now)
    return found


@pytest.mark.parametrize("day", [SPRING, AUTUMN, date(2026, 7, 1)])
@pytest.mark.parametrize("hour", [0, 1, 2, 3, 6, 23])
def test_it_begins_once_on_each_day(day: date, hour: int) -> None:
    for only_in_hour in (True, False):
        found = begun_on(day, hour, only_in_hour=only_in_hour)
        days = [moment.date() for moment in found]
        # The last of the three days may end before its hour: a day has 23 to 25 hours.
        assert days[:2] == [day - timedelta(days=1), day]
        assert len(days) == len(set(days))
        expected = 3 if (day, hour) == (SPRING, 2) else hour
        assert found[1].hour == expected


def test_a_missed_hour_is_caught_up_on_the_same_day_if_the_task_allows_it() -> None:
    late = datetime(2026, 11, 16, 17, 30, tzinfo=BERLIN)
    yesterday = date(2026, 11, 15)
    assert is_due(late, 6, yesterday, only_in_hour=False)
    assert not is_due(late, 6, yesterday, only_in_hour=True)
    assert not is_due(late, 18, yesterday, only_in_hour=False)
    assert not is_due(late, 6, late.date(), only_in_hour=False)


@given(st.datetimes(timezones=st.just(BERLIN)), st.integers(0, 23))
def test_it_is_never_due_twice_on_one_day(now: datetime, hour: int) -> None:
    record = DailyRecord().with_task("backup", now.date())
    assert not is_due(now, hour, record.begun["backup"], only_in_hour=False)
