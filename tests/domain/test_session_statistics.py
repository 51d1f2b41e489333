"""The statistics that a compaction reports about the messages it replaced."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.strategies import instants, session_events, zones

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.ids import MessageId, SessionId
from ollim_bot.domain.session_use import CompactedHistory, answers, began_at, compacted_history
from ollim_bot.domain.sessions import SessionChange, SessionEvent

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)
OURS, OTHER = SessionId("ours"), SessionId("other")
BEGINNINGS = {SessionChange.CREATED, SessionChange.COMPACTED, SessionChange.SWAPPED}

sessions = st.sampled_from([OURS, OTHER])
events = st.lists(st.builds(SessionEvent, sessions, st.sampled_from(SessionChange), instants))
messages = st.lists(
    st.builds(
        ChatMessage,
        st.uuids().map(lambda one: MessageId(one.hex)),
        st.just(NOW),
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
    assert compacted_history(OURS, NOW, NOW, given_, 0).turns == len(ours)
    assert [one for one in answers(given_) if one.session == OURS] == ours


@given(messages)
def test_an_answer_that_stands_in_the_log_again_is_one_answer_as_it_stands_last(
    given_: list[ChatMessage],
) -> None:
    delivered = [replace(one, refs={"elsewhere": "1"}) for one in given_]
    assert list(answers([*given_, *delivered])) == list(answers(delivered))
    assert compacted_history(OURS, NOW, NOW, [*given_, *delivered], 0) == compacted_history(
        OURS, NOW, NOW, given_, 0
    )


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
