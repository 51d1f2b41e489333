"""Sessions of the engine: their history, how full one is, and which one can go back to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.moments import elapsed
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.usage import Usage

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


_BEGINNINGS = (SessionChange.CREATED, SessionChange.COMPACTED, SessionChange.SWAPPED)
# The models from the smallest to the largest, with their windows in tokens.
_WINDOWS: Mapping[str, int] = {"haiku": 200_000, "sonnet": 1_000_000, "opus": 1_000_000}
# The engine keeps this much of a window free, and compacts beyond that.
_KEPT_FREE = 33_000


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


def percent_used(context: int, window: int | None) -> int | None:
    """The used share of the window, rounded down; None if the window is not known."""
    return None if not window else context * 100 // window


def context_warning(usage: Usage) -> str:
    """The warning about a full context; empty below 60 %."""
    percent = percent_used(usage.context, usage.window)
    if percent is None or percent < 60:
        return ""
    advice = "consider /compact" if percent < 80 else "compaction soon, /compact recommended"
    return f"context: {percent}% ({thousands(usage.context)}) — {advice}"


def thousands(tokens: int) -> str:
    """`950`, `45k`, `1.2M`."""
    if tokens < 1000:
        return str(tokens)
    if tokens < 999_500:
        return f"{round(tokens / 1000)}k"
    return f"{tokens / 1_000_000:.1f}M"


def began_at(session: SessionId, events: Iterable[SessionEvent]) -> datetime | None:
    """When the present history of the session began: at its start or its last compaction."""
    moments = [
        event.timestamp
        for event in events
        if event.session_id == session and event.event in _BEGINNINGS
    ]
    return moments[-1] if moments else None


@dataclass(frozen=True, slots=True)
class CompactedHistory:
    """The part of the history that a compaction replaced."""

    turns: int
    length: timedelta
    tokens: int

    def __str__(self) -> str:
        """`15 turns · 3h 12m · 45k tokens compacted`."""
        minutes = max(0, int(self.length.total_seconds() // 60))
        days, hours = minutes // (24 * 60), minutes // 60 % 24
        length = f"{hours}h {minutes % 60}m" if hours else f"{minutes}m"
        length = f"{days}d {hours}h" if days else length
        return (
            f"{counted(self.turns, 'turn')} · {length} · {thousands(self.tokens)} tokens compacted"
        )


def compacted_history(
    session: SessionId, began: datetime, now: datetime, messages: Iterable[ChatMessage], tokens: int
) -> CompactedHistory:
    turns = sum(message.session == session for message in answers(messages))
    return CompactedHistory(turns, elapsed(began, now), tokens)


def answers(messages: Iterable[ChatMessage]) -> Iterable[ChatMessage]:
    """Each answer once, in its newest version: the log repeats a message that has changed."""
    said = (message for message in messages if message.author is Author.ASSISTANT)
    return {message.id: message for message in said}.values()


def fitting_model(wanted: str, context: int) -> str:
    """The wanted model, or the next larger one if a history of `context` tokens is too long."""
    size = next((name for name in _WINDOWS if name in wanted.lower()), None)
    if size is None or context <= _WINDOWS[size] - _KEPT_FREE:
        return wanted
    names = list(_WINDOWS)
    larger = (name for name in names[names.index(size) + 1 :] if _WINDOWS[name] > _WINDOWS[size])
    return next(larger, wanted)
