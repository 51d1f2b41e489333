"""What `/compact` and `/cost` say about a conversation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.context_use import thousands
from ollim_bot.domain.moments import elapsed
from ollim_bot.domain.sessions import SessionChange, SessionEvent, SessionId

_BEGINNINGS = (SessionChange.CREATED, SessionChange.COMPACTED, SessionChange.SWAPPED)


def began_at(session: SessionId, events: Iterable[SessionEvent]) -> datetime | None:
    """When the history that the session now has began: at its start or its last compaction."""
    moments = [
        event.timestamp
        for event in events
        if event.session_id == session and event.event in _BEGINNINGS
    ]
    return moments[-1] if moments else None


@dataclass(frozen=True, slots=True)
class Stretch:
    """What stood in the history before it was compacted."""

    turns: int
    length: timedelta
    tokens: int

    def __str__(self) -> str:
        """`15 turns · 3h 12m · 45k tokens compacted`."""
        turns = f"{self.turns} turn" if self.turns == 1 else f"{self.turns} turns"
        return f"{turns} · {_length(self.length)} · {thousands(self.tokens)} tokens compacted"


def stretch(
    session: SessionId, began: datetime, now: datetime, messages: Iterable[ChatMessage], tokens: int
) -> Stretch:
    turns = sum(message.session == session for message in answers(messages))
    return Stretch(turns, elapsed(began, now), tokens)


def answers(messages: Iterable[ChatMessage]) -> Iterable[ChatMessage]:
    """Each once, as it is now: the log has one again that was changed, or delivered elsewhere."""
    said = (message for message in messages if message.author is Author.ASSISTANT)
    return {message.id: message for message in said}.values()


def _length(length: timedelta) -> str:
    minutes = max(0, int(length.total_seconds() // 60))
    days, hours = minutes // (24 * 60), minutes // 60 % 24
    if days:
        return f"{days}d {hours}h"
    return f"{hours}h {minutes % 60}m" if hours else f"{minutes}m"
