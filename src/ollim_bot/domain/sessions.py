"""Sessions of the engine and the events of their lives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NewType

SessionId = NewType("SessionId", str)


class SessionChange(StrEnum):
    CREATED = "created"
    COMPACTED = "compacted"
    SWAPPED = "swapped"
    CLEARED = "cleared"
    INTERACTIVE_FORK = "interactive_fork"
    BG_FORK = "bg_fork"
    ISOLATED_BG = "isolated_bg"
    RESTARTING = "restarting"


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """One line of the session history; the parent is set where one session came from another."""

    session_id: SessionId
    event: SessionChange
    timestamp: datetime
    parent_session_id: SessionId | None = None

    @property
    def journal_message(self) -> str:
        return f"session {self.event}: {self.session_id[:8]}"
