"""Which session sent which message: live for a week, told as expired for a month, then unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.strategies import fork_messages, unix_seconds

from ollim_bot.domain.forks import (
    ForkLookup,
    ForkMessage,
    ForkStatus,
    lookup_fork_session,
    with_fork_message,
)
from ollim_bot.domain.ids import SessionId

DAY = 86400
SENT = ForkMessage(1122, SessionId("fork-1"), SessionId("main-1"), ts=1_770_000_000.0)
# Of few messages, so that some are recorded more than once, and of days that matter.
days = st.integers(0, 80).map(lambda day: SENT.ts + day * DAY)
few = st.builds(
    lambda one, ts: replace(one, message_id=one.message_id % 4, ts=ts), fork_messages, days
)
histories = st.lists(few, max_size=6)


def status(record: ForkMessage, now: float) -> ForkStatus:
    return lookup_fork_session([record], record.message_id, now).status


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        pytest.param(0, ForkStatus.LIVE, id="just-sent"),
        pytest.param(7 * DAY - 1, ForkStatus.LIVE, id="a-second-before-a-week"),
        pytest.param(7 * DAY, ForkStatus.EXPIRED, id="a-week"),
        pytest.param(37 * DAY - 1, ForkStatus.EXPIRED, id="a-second-before-37-days"),
        pytest.param(37 * DAY, ForkStatus.UNKNOWN, id="37-days"),
        pytest.param(4000 * DAY, ForkStatus.UNKNOWN, id="years"),
        pytest.param(-DAY, ForkStatus.LIVE, id="clock-went-back"),
        pytest.param(-4000 * DAY, ForkStatus.LIVE, id="clock-went-far-back"),
    ],
)
def test_a_message_is_live_then_expired_then_unknown(age: float, expected: ForkStatus) -> None:
    assert status(SENT, SENT.ts + age) is expected


@given(fork_messages, unix_seconds, st.floats(0, 1e9))
def test_no_message_comes_back_to_life(record: ForkMessage, now: float, wait: float) -> None:
    order = [ForkStatus.LIVE, ForkStatus.EXPIRED, ForkStatus.UNKNOWN]
    assert order.index(status(record, now)) <= order.index(status(record, now + wait))


@given(histories, st.integers(0, 4), days)
def test_a_record_is_given_exactly_when_the_message_is_known(
    records: list[ForkMessage], message_id: int, now: float
) -> None:
    found = lookup_fork_session(records, message_id, now)
    assert (found.record is None) == (found.status is ForkStatus.UNKNOWN)
    assert found.record is None or found.record.message_id == message_id


def test_a_message_that_was_never_recorded_is_unknown() -> None:
    assert lookup_fork_session([SENT], 3, SENT.ts) == ForkLookup(ForkStatus.UNKNOWN)


@given(histories, few)
def test_what_is_recorded_is_found_at_once(records: list[ForkMessage], sent: ForkMessage) -> None:
    kept = with_fork_message(records, sent, sent.ts)
    assert lookup_fork_session(kept, sent.message_id, sent.ts) == ForkLookup(ForkStatus.LIVE, sent)


@given(histories, few, few)
def test_the_second_record_of_a_message_wins(
    records: list[ForkMessage], first: ForkMessage, second: ForkMessage
) -> None:
    second = replace(second, message_id=first.message_id)
    once = with_fork_message(records, first, first.ts)
    twice = with_fork_message(once, second, second.ts)
    assert [one for one in twice if one.message_id == first.message_id] == [second]


@given(fork_messages, fork_messages)
def test_of_two_records_in_one_file_the_later_one_wins(
    first: ForkMessage, second: ForkMessage
) -> None:
    second = replace(second, message_id=first.message_id)
    found = lookup_fork_session([first, second], first.message_id, second.ts)
    assert found.record == second


@given(histories, few, days)
def test_recording_drops_what_is_forgotten_and_nothing_else(
    records: list[ForkMessage], sent: ForkMessage, now: float
) -> None:
    remembered = [
        one
        for one in records
        if one.message_id != sent.message_id and status(one, now) is not ForkStatus.UNKNOWN
    ]
    assert with_fork_message(records, sent, now) == (*remembered, sent)
