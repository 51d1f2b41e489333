"""The conversations that the owner can go back to, as the page lists them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ollim_bot.domain.sessions import SessionId


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
