"""What is sent within the allowance is never refused by a server that counts as the public one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from devtools.localntfy.access import Limits
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.features.phone.ntfy_channel import (
    BURST,
    Bucket,
    is_room,
    is_silent,
    next_day,
    pause_after,
)
from ollim_bot.kernel.values.push import KEPT_FOR_MUST, PER_DAY
from ollim_bot.kernel.values.surface_state import PushState

START = datetime(2026, 11, 18, 22, 0, tzinfo=UTC)
# Pauses between requests in seconds, bursts mostly; and whether each must come.
WISHES = st.lists(
    st.tuples(st.one_of(st.just(0.0), st.floats(0, 9), st.floats(0, 4000)), st.booleans()),
    max_size=400,
)


@given(WISHES, st.integers(0, PER_DAY))
def test_the_server_refuses_nothing_that_waits_its_turn(
    wishes: list[tuple[float, bool]], sent: int
) -> None:
    now = 0.0
    state = replace(PushState(), sent=sent, day=START.date().isoformat())
    server = Limits(lambda: START + timedelta(seconds=now))
    for _ in range(sent):
        server.take_message("bot")
    bucket = Bucket(BURST, now)
    for pause, must in wishes:
        now += pause
        bucket, wait = bucket.taken(now)
        now += wait
        server.take_request("bot")
        at = START + timedelta(seconds=now)
        if is_room(state, at, must=must):
            server.take_message("bot")
            state = state.counting(at)
        assert server.messages_of("bot") == state.sent_on(at) <= PER_DAY
        assert is_room(state, at, must=False) is (state.sent_on(at) < PER_DAY - KEPT_FOR_MUST)


@given(st.integers(0, 30), st.one_of(st.none(), st.floats(0, 100_000)), st.floats(0, 90_000))
def test_a_pause_is_as_long_as_asked_grows_without_a_word_and_never_shrinks(
    refusals: int, asked: float | None, later: float
) -> None:
    pause = pause_after(refusals, asked)
    assert pause >= timedelta(seconds=1 if asked is None else asked)
    assert pause_after(refusals + 1, None) >= pause_after(refusals, None)
    until = START + pause
    state = PushState().silent_until(until)
    assert state.silent_until(START) == state
    at = START + timedelta(seconds=later)
    assert is_silent(state, at) is (at < until)
    assert timedelta() < next_day(at) - at <= timedelta(days=1)
