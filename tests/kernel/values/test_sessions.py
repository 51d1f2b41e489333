"""Sessions: their events, what a compaction replaced, and how full the window is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.values.strategies import instants, session_events, zones

from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.sessions import (
    Cause,
    CompactedHistory,
    Session,
    SessionChange,
    SessionEvent,
    answers,
    began_at,
    compacted_history,
    context_warning,
    percent_used,
    thousands,
)
from ollim_bot.kernel.values.usage import Usage


def test_the_history_knows_these_events() -> None:
    assert [*SessionChange] == [
        "created",
        "compacted",
        "swapped",
        "cleared",
        "interactive_fork",
        "bg_fork",
        "isolated_bg",
        "restarting",
    ]


@given(session_events)
def test_the_journal_names_the_event_and_the_first_eight_of_the_id(event: SessionEvent) -> None:
    assert event.journal_message == f"session {event.event.value}: {event.session_id[:8]}"


NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)

OLD, NEW = SessionId("old"), SessionId("new")


@pytest.mark.parametrize(
    ("before", "cause", "change", "parent"),
    [
        pytest.param(None, Cause.NAMED, SessionChange.CREATED, None, id="first"),
        pytest.param(OLD, Cause.COMPACTED, SessionChange.COMPACTED, OLD, id="compacted anew"),
        pytest.param(NEW, Cause.COMPACTED, SessionChange.COMPACTED, NEW, id="compacted in place"),
        pytest.param(OLD, Cause.SAVED, SessionChange.SWAPPED, OLD, id="fork saved"),
        pytest.param(None, Cause.SAVED, SessionChange.SWAPPED, None, id="fork saved after clear"),
        pytest.param(OLD, Cause.RESUMED, SessionChange.SWAPPED, OLD, id="old one resumed"),
        pytest.param(OLD, Cause.NAMED, SessionChange.SWAPPED, OLD, id="the engine took another"),
    ],
)
def test_a_change_is_told_by_its_cause(
    before: SessionId | None, cause: Cause, change: SessionChange, parent: SessionId | None
) -> None:
    session, event = Session(before).after(NEW, cause, NOW)
    assert session == Session(NEW)
    assert event == SessionEvent(NEW, change, NOW, parent)


@pytest.mark.parametrize("cause", [Cause.NAMED, Cause.SAVED, Cause.RESUMED])
def test_the_same_session_named_again_is_no_event(cause: Cause) -> None:
    assert Session(NEW).after(NEW, cause, NOW) == (Session(NEW), None)


def test_clearing_ends_the_session_once() -> None:
    session, event = Session(OLD).cleared(NOW)
    assert session == Session()
    assert event == SessionEvent(OLD, SessionChange.CLEARED, NOW)
    assert session.cleared(NOW) == (Session(), None)


MERGED_AT = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)

OURS, OTHER = SessionId("ours"), SessionId("other")

BEGINNINGS = {SessionChange.CREATED, SessionChange.COMPACTED, SessionChange.SWAPPED}

sessions = st.sampled_from([OURS, OTHER])

events = st.lists(st.builds(SessionEvent, sessions, st.sampled_from(SessionChange), instants))

messages = st.lists(
    st.builds(
        ChatMessage,
        st.uuids().map(lambda one: MessageId(one.hex)),
        st.just(MERGED_AT),
        st.sampled_from(Author),
        st.just("text"),
        session=st.none() | sessions,
        is_cut_off=st.booleans(),
    )
)


@given(events)
def test_the_history_of_a_session_began_with_its_last_beginning(
    history: list[SessionEvent],
) -> None:
    began = [
        event.timestamp
        for event in history
        if event.session_id == OURS and event.event in BEGINNINGS
    ]
    assert began_at(OURS, history) == (began[-1] if began else None)


@given(st.lists(session_events))
def test_what_other_sessions_did_does_not_count(history: list[SessionEvent]) -> None:
    assert began_at(SessionId("nobody's"), history) is None


@given(messages)
def test_turns_are_the_answers_that_were_given_in_the_session(given_: list[ChatMessage]) -> None:
    ours = [one for one in given_ if one.author is Author.ASSISTANT and one.session == OURS]
    assert compacted_history(OURS, MERGED_AT, MERGED_AT, given_, 0).turns == len(ours)
    assert [one for one in answers(given_) if one.session == OURS] == ours


@given(messages)
def test_an_answer_that_stands_in_the_log_again_is_one_answer_as_it_stands_last(
    given_: list[ChatMessage],
) -> None:
    delivered = [replace(one, refs={"elsewhere": "1"}) for one in given_]
    assert list(answers([*given_, *delivered])) == list(answers(delivered))
    assert compacted_history(
        OURS, MERGED_AT, MERGED_AT, [*given_, *delivered], 0
    ) == compacted_history(OURS, MERGED_AT, MERGED_AT, given_, 0)


@given(instants, instants, zones, zones)
def test_the_length_is_that_between_two_instants_in_whatever_zone(
    began: datetime, now: datetime, one: tzinfo, other: tzinfo
) -> None:
    here = compacted_history(OURS, began, now, [], 0)
    there = compacted_history(OURS, began.astimezone(one), now.astimezone(other), [], 0)
    assert here.length == there.length == now - began


@pytest.mark.parametrize(
    ("turns", "length", "tokens", "line"),
    [
        (15, timedelta(hours=3, minutes=12), 45_200, "15 turns · 3h 12m · 45k tokens compacted"),
        (1, timedelta(seconds=59), 0, "1 turn · 0m · 0 tokens compacted"),
        (0, timedelta(minutes=59, seconds=59), 999, "0 turns · 59m · 999 tokens compacted"),
        (2, timedelta(hours=1), 1000, "2 turns · 1h 0m · 1k tokens compacted"),
        (2, timedelta(days=1), 1_200_000, "2 turns · 1d 0h · 1.2M tokens compacted"),
        (2, timedelta(days=3, hours=7, minutes=59), 1, "2 turns · 3d 7h · 1 tokens compacted"),
        (2, timedelta(minutes=-5), 1, "2 turns · 0m · 1 tokens compacted"),
    ],
)
def test_the_line_is_as_agreed(turns: int, length: timedelta, tokens: int, line: str) -> None:
    assert str(CompactedHistory(turns, length, tokens)) == line


@given(st.integers(0, 400 * 24 * 60))
def test_what_is_said_of_the_length_is_true(minutes: int) -> None:
    said = str(CompactedHistory(2, timedelta(minutes=minutes), 0)).split(" · ")[1]
    units = {"d": 24 * 60, "h": 60, "m": 1}
    read = sum(int(part[:-1]) * units[part[-1]] for part in said.split())
    assert 0 <= minutes - read < (60 if "d" in said else 1)


tokens = st.integers(0, 3_000_000)

windows = st.sampled_from([8_192, 200_000, 1_000_000]) | st.integers(1, 2_000_000)


@given(tokens, windows)
def test_the_percentage_is_rounded_down(context: int, window: int) -> None:
    percent = percent_used(context, window)
    assert percent is not None
    assert percent * window <= context * 100 < (percent + 1) * window


@pytest.mark.parametrize("window", [None, 0])
def test_without_a_window_there_is_no_percentage_and_no_warning(window: int | None) -> None:
    assert percent_used(100_000, window) is None
    assert context_warning(Usage(100_000, window=window)) == ""


@given(tokens, windows)
def test_the_warning_follows_from_the_percentage(context: int, window: int) -> None:
    percent = percent_used(context, window)
    assert percent is not None
    warning = context_warning(Usage(context, window=window))
    assert bool(warning) == (percent >= 60)
    if warning:
        advice = "consider /compact" if percent < 80 else "compaction soon, /compact recommended"
        assert warning == f"context: {percent}% ({thousands(context)}) — {advice}"


@pytest.mark.parametrize("window", [200_000, 1_000_000])
@pytest.mark.parametrize(
    ("percent", "advice"),
    [
        (59, None),
        (60, "consider /compact"),
        (79, "consider /compact"),
        (80, "compaction soon, /compact recommended"),
    ],
)
def test_the_borders_are_at_60_and_80_percent(
    window: int, percent: int, advice: str | None
) -> None:
    first, last = window * percent // 100, window * (percent + 1) // 100 - 1
    for context in (first, last):
        warning = context_warning(Usage(context, window=window))
        assert warning.partition(" — ")[2] == (advice or "")
        assert warning.startswith(f"context: {percent}% (") == bool(advice)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (44_500, "44k"),
        (45_200, "45k"),
        (999_499, "999k"),
        (999_500, "1.0M"),
        (1_234_567, "1.2M"),
    ],
)
def test_tokens_are_said_in_thousands(number: int, text: str) -> None:
    assert thousands(number) == text


@given(tokens)
def test_what_is_said_is_near_the_number(number: int) -> None:
    text = thousands(number)
    factor = {"k": 1000, "M": 1_000_000}.get(text[-1], 1)
    said = float(text.rstrip("kM")) * factor
    assert abs(said - number) <= (0 if factor == 1 else 500 if factor == 1000 else 50_000)
    assert len(text) <= 4
