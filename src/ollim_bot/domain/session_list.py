"""The conversations that the owner can go back to, as the page lists them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import datetime

from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.sessions import SessionChange, SessionEvent


@dataclass(frozen=True, slots=True)
class SessionLine:
    """A conversation; `words` are the topic of a side conversation, or what was said first."""

    id: SessionId
    at: datetime
    words: str
    answers: int = 0
    is_current: bool = False


@dataclass(frozen=True, slots=True)
class CompactionLine:
    """A conversation that was shortened; `before` is the whole one, None if it is gone."""

    at: datetime
    words: str
    before: SessionId | None = None


@dataclass(frozen=True, slots=True)
class SessionList:
    """All of them, the newest first."""

    now: datetime
    main: tuple[SessionLine, ...] = ()
    side: tuple[SessionLine, ...] = ()
    compactions: tuple[CompactionLine, ...] = ()


def session_list(
    now: datetime,
    lines: Sequence[SessionLine],
    sides: Set[SessionId],
    events: Sequence[SessionEvent],
) -> SessionList:
    """The conversations by kind; `sides` are those beside the main ones.

    A conversation that a compaction has replaced is listed with the compaction.
    """
    known = {each.id: each for each in lines}
    compacted = [
        each
        for each in events
        if each.event is SessionChange.COMPACTED and each.session_id in known
    ]
    replaced = {
        each.parent_session_id for each in compacted if each.parent_session_id != each.session_id
    }
    former = {name for name, each in known.items() if name in replaced and not each.is_current}
    return SessionList(
        now,
        tuple(each for each in lines if each.id not in sides | former),
        tuple(each for each in lines if each.id in sides),
        tuple(
            CompactionLine(
                each.timestamp,
                known[each.session_id].words,
                each.parent_session_id if each.parent_session_id in former else None,
            )
            for each in reversed(compacted)
        ),
    )
