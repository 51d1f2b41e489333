"""Sessions of the engine, and their history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.moments import elapsed

UNDO_WITHIN = timedelta(minutes=10)


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
    """One line of the session history; the parent is the session that this one came from."""

    session_id: SessionId
    event: SessionChange
    timestamp: datetime
    parent_session_id: SessionId | None = None

    @property
    def journal_message(self) -> str:
        return f"session {self.event}: {self.session_id[:8]}"


class Cause(StrEnum):
    """Why the main session changed."""

    NAMED = "named"
    COMPACTED = "compacted"
    SAVED = "saved"
    RESUMED = "resumed"


@dataclass(frozen=True, slots=True)
class Session:
    """The main session; `id` is None until the engine has named one."""

    id: SessionId | None = None

    def after(
        self, new_id: SessionId, cause: Cause, now: datetime
    ) -> tuple[Session, SessionEvent | None]:
        """The new main session, and the event of the change, if it is one."""
        if cause is Cause.COMPACTED:
            return Session(new_id), SessionEvent(
                new_id, SessionChange.COMPACTED, now, self.id or new_id
            )
        if new_id == self.id:
            return self, None
        if self.id is None and cause is Cause.NAMED:
            return Session(new_id), SessionEvent(new_id, SessionChange.CREATED, now)
        return Session(new_id), SessionEvent(new_id, SessionChange.SWAPPED, now, self.id)

    def cleared(self, now: datetime) -> tuple[Session, SessionEvent | None]:
        if self.id is None:
            return self, None
        return Session(), SessionEvent(self.id, SessionChange.CLEARED, now)


@dataclass(frozen=True, slots=True)
class ClearedConversation:
    """The main session that `/clear` left, for its Undo.

    `id` is that of the command, `note` that of the message with the Undo.
    """

    id: str = ""
    note: str = ""
    session: SessionId | None = None
    at: datetime | None = None

    def undo_left(self, now: datetime) -> timedelta | None:
        """How long the Undo still works, not above zero once it is over; None without one."""
        return None if self.at is None else UNDO_WITHIN - elapsed(self.at, now)

    def can_return(self, clear: str, now: datetime) -> bool:
        """Whether the Undo of this `/clear` still works."""
        left = self.undo_left(now)
        return self.id == clear and left is not None and left > timedelta()
