"""Messages have numbers as ids, in the order of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.domain.chat import numbered_id
from ollim_bot.domain.outgoing import as_number

AT = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
these_times = st.datetimes(datetime(2000, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


@pytest.mark.parametrize(
    "name", ["", "m1", "-1", "1.5", " 1", "1_000", "٣", "²", str(2**63), "9" * 5000]
)
def test_other_ids_are_no_numbers(name: str) -> None:
    assert as_number(name) is None


@given(these_times, st.integers())
def test_a_numbered_id_is_a_number_that_a_fork_may_use(now: datetime, chance: int) -> None:
    assert as_number(numbered_id(now, chance)) is not None


@given(these_times, st.integers(), st.integers())
def test_numbered_ids_are_in_the_order_of_time(now: datetime, first: int, second: int) -> None:
    earlier, later = numbered_id(now, first), numbered_id(now + 2 * MILLISECOND, second)
    assert int(earlier) < int(later)
    assert len(earlier) <= len(later)


@given(st.sets(st.integers(0, 2**20 - 1), max_size=50))
def test_numbered_ids_of_one_moment_are_as_different_as_chance(chances: set[int]) -> None:
    assert len({numbered_id(AT, chance) for chance in chances}) == len(chances)
