"""The names of session events in the history and its journal."""

from __future__ import annotations

from hypothesis import given
from tests.domain.strategies import session_events

from ollim_bot.domain.sessions import SessionChange, SessionEvent


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
