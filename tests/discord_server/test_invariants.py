"""Invariants of ids, pages and rate limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from devtools.localdiscord.faults import Buckets
from devtools.localdiscord.routes import page_of
from devtools.localdiscord.state import DiscordState, Message
from devtools.localdiscord.validation import DiscordError
from hypothesis import given
from hypothesis import strategies as st

START = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)


class AdjustableClock:
    """A clock that shows `passed` seconds after the start."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed


@given(st.lists(st.floats(-5, 5), max_size=30))
def test_each_id_is_greater_than_all_before(steps: list[float]) -> None:
    """Even when the clock is set back."""
    clock = AdjustableClock()
    state = DiscordState(clock.now, clock.monotonic)
    ids = []
    for step in steps:
        clock.passed += step
        ids.append(int(state.new_id()))
    assert ids == sorted(set(ids))


def test_an_id_holds_its_time() -> None:
    clock = AdjustableClock()
    milliseconds = (int(DiscordState(clock.now, clock.monotonic).new_id()) >> 22) + 1420070400000
    assert milliseconds == int(START.timestamp() * 1000)


@given(st.integers(0, 25), st.integers(1, 7))
def test_pages_in_either_direction_give_everything_once(count: int, limit: int) -> None:
    clock = AdjustableClock()
    state = DiscordState(clock.now, clock.monotonic)
    person = state.new_user("person")
    channel = state.dm_with(person)
    standing = [Message(state.new_id(), channel, person, START) for _ in range(count)]

    onwards, last = list[Message](), "0"
    while page := page_of(standing, {"limit": str(limit), "after": last}):
        onwards += page[::-1]
        last = page[0].id
    assert onwards == standing

    back, first = list[Message](), state.new_id()
    while page := page_of(standing, {"limit": str(limit), "before": first}):
        back += page
        first = page[-1].id
    assert back == standing[::-1]


@given(
    st.integers(1, 5),
    st.integers(1, 40).map(lambda quarters: quarters / 4),
    st.lists(st.integers(0, 12).map(lambda quarters: quarters / 4), min_size=1, max_size=40),
)
def test_no_more_pass_than_are_allowed_and_who_waits_passes(
    limit: int, per: float, steps: list[float]
) -> None:
    """A window begins with its first request and ends before the next one begins."""
    clock = AdjustableClock()
    buckets = Buckets(clock.monotonic)
    buckets.allow("send", limit, per)
    passed: list[float] = []
    for step in steps:
        clock.passed += step
        try:
            buckets.take("send", "channel")
        except DiscordError as refused:
            clock.passed += refused.after or 0.0
            buckets.take("send", "channel")
        passed.append(clock.passed)
    while passed:
        within = [at for at in passed if at < passed[0] + per]
        assert len(within) <= limit
        passed = passed[len(within) :]


def test_channels_are_counted_apart() -> None:
    buckets = Buckets(AdjustableClock().monotonic)
    buckets.allow("send", 1, 5.0)
    buckets.take("send", "one")
    buckets.take("send", "two")
    with pytest.raises(DiscordError):
        buckets.take("send", "one")
