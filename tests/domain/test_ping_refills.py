"""The predicted number of refills of the ping budget up to a moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.strategies import ping_budgets

from ollim_bot.domain.pings import PingBudget

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
FULL = PingBudget.full(NOON)

waits = st.timedeltas(timedelta(0), timedelta(days=400))


@given(ping_budgets(), waits)
def test_refills_are_what_time_adds_where_there_is_room(
    budget: PingBudget, wait: timedelta
) -> None:
    """They equal the growth of a budget that was never full in between."""
    now = budget.last_refill
    moment = now + wait
    refills = budget.refills_until(moment, now)
    assert refills >= 0
    later = budget.refilled(moment)
    if later.tokens < later.capacity:
        assert later.tokens == budget.tokens + refills


@pytest.mark.parametrize(
    ("available", "minutes", "refills"),
    [(5.0, 89, 0), (5.0, 90, 1), (0.0, 180, 2), (2.5, 44, 0), (2.5, 45, 1), (0.0, 900, 10)],
)
def test_a_full_bucket_gets_back_what_is_spent_now(
    available: float, minutes: int, refills: int
) -> None:
    budget = replace(FULL, available=available)
    assert budget.refills_until(NOON + minutes * MINUTE, NOON) == refills
    assert budget.refills_until(NOON - HOUR, NOON) == 0
