"""Interactive forks: when one is idle, how it ended, and which session sent which message."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.values.strategies import fork_messages, instants, texts

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.values.forks import (
    REPORT_LENGTH,
    Discard,
    Fork,
    ForkExit,
    ForkLookup,
    ForkMessage,
    ForkStatus,
    IdleAction,
    Report,
    Save,
    end_title,
    lookup_fork_session,
    with_fork_message,
)

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)

LIMIT = timedelta(minutes=10)

MOMENT = timedelta(microseconds=1)

MAIN, OTHER = SessionId("main-1"), SessionId("other-1")

FORK = Fork("f1", SessionId("fork-1"), MAIN, "taxes", LIMIT, NOON, NOON)

limits = st.timedeltas(timedelta(seconds=1), timedelta(days=30))

gaps = st.timedeltas(timedelta(days=-400), timedelta(days=400))

forks = st.builds(
    lambda limit, at, is_prompted: replace(
        FORK, idle_limit=limit, last_activity=at, is_prompted=is_prompted
    ),
    limits,
    instants,
    st.booleans(),
)


@given(forks, gaps)
def test_nothing_is_done_before_the_time_is_over_whatever_the_clock_does(
    fork: Fork, gap: timedelta
) -> None:
    is_kept = fork.verdict(fork.last_activity + gap) is IdleAction.KEEP
    assert is_kept == (gap < fork.idle_limit)


@given(forks, instants, gaps)
def test_what_the_owner_does_begins_the_time_anew(
    fork: Fork, now: datetime, gap: timedelta
) -> None:
    """Also after a clock that went back, and also when it had been asked already."""
    touched = fork.touched(now)
    assert touched.verdict(now) is IdleAction.KEEP
    assert touched.verdict(now + gap) is not IdleAction.CLOSE
    assert touched.verdict(now + fork.idle_limit) is IdleAction.PROMPT


@given(forks, instants)
def test_it_is_asked_once_and_then_closed(fork: Fork, now: datetime) -> None:
    asked = fork.prompted(now)
    assert asked.verdict(now) is IdleAction.KEEP
    assert asked.verdict(now + fork.idle_limit - MOMENT) is IdleAction.KEEP
    assert asked.verdict(now + fork.idle_limit) is IdleAction.CLOSE


def test_an_hour_that_is_repeated_or_left_out_is_not_idleness() -> None:
    new_york = ZoneInfo("America/New_York")
    before = datetime(2026, 3, 8, 1, 58, tzinfo=new_york)
    after = datetime(2026, 3, 8, 3, 2, tzinfo=new_york)
    assert FORK.touched(before).verdict(after) is IdleAction.KEEP
    first = datetime(2026, 11, 1, 1, 30, tzinfo=new_york)
    assert FORK.touched(first).verdict(first.replace(fold=1)) is IdleAction.PROMPT


BRANCHED_OFF = [
    # (resumed from, main then, main now) -> may it be saved?
    (None, MAIN, MAIN, True),
    (None, MAIN, OTHER, False),
    (None, MAIN, None, False),
    (None, None, None, True),
    (None, None, MAIN, False),
    (MAIN, MAIN, MAIN, True),
    (MAIN, MAIN, OTHER, False),
    (MAIN, MAIN, None, False),
    (MAIN, OTHER, MAIN, False),
    (OTHER, MAIN, MAIN, False),
    (OTHER, MAIN, OTHER, False),
    (OTHER, MAIN, None, False),
    (OTHER, None, None, False),
    (OTHER, None, MAIN, False),
]


@pytest.mark.parametrize(("resumed_from", "then", "now", "may_be_saved"), BRANCHED_OFF)
def test_it_may_take_the_place_of_main_only_where_main_stood_still(
    resumed_from: SessionId | None,
    then: SessionId | None,
    now: SessionId | None,
    may_be_saved: bool,
) -> None:
    fork = replace(FORK, resumed_from=resumed_from, main=then).answered("Rome.")
    assert (fork.obstacle_to_saving(now) == "") is may_be_saved


def test_the_obstacle_says_which_it_is() -> None:
    fork = FORK.answered("Rome.")
    gone_on = fork.obstacle_to_saving(OTHER)
    assert gone_on == "the main conversation has gone on since it branched off"
    resumed = replace(fork, resumed_from=OTHER).obstacle_to_saving(MAIN)
    assert resumed == "it goes on from another conversation than today's main one"


@pytest.mark.parametrize("fork", [FORK, replace(FORK, session=None).answered("Rome.")])
def test_what_was_never_answered_is_not_saved(fork: Fork) -> None:
    assert fork.obstacle_to_saving(MAIN) == "nothing has been answered in it yet"


@pytest.mark.parametrize(
    ("how", "title"),
    [
        (Save(), "Side conversation ended — all of it kept"),
        (Report("3 mails"), "Side conversation ended — summary kept"),
        (Discard(), "Side conversation ended — nothing kept"),
    ],
)
def test_the_end_card_says_how_it_ended(how: ForkExit, title: str) -> None:
    assert end_title(how) == title


@given(forks, st.lists(texts | st.just("x" * 600), min_size=1, max_size=3))
def test_the_beginning_of_the_last_answer_is_at_hand_for_the_summary(
    fork: Fork, answers: list[str]
) -> None:
    assert not fork.has_answered
    for text in answers:
        fork = fork.answered(text)
    assert fork.has_answered
    assert fork.last_answer == answers[-1][:REPORT_LENGTH]
    assert fork.touched(NOON).prompted(NOON).named(OTHER).last_answer == fork.last_answer


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
