"""Each cause of a session change leads to its event."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.sessions import Cause, Session, SessionChange, SessionEvent

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
