"""The events of sessions, which people can read in `session_history.jsonl`."""

from __future__ import annotations

from typing import NamedTuple

from ollim_bot.domain.sessions import SessionEvent
from ollim_bot.store.codecs.records import SESSION_EVENTS
from ollim_bot.store.connection import Statements

HISTORY_FILE = "session_history.jsonl"


class SessionHistory:
    """The events of sessions, in order; also appended to `session_history.jsonl`."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def append(self, *events: SessionEvent) -> None:
        for event in events:
            line = SESSION_EVENTS.encode(event)
            self._statements.write(
                "session_history",
                "INSERT INTO session_history (seq, value)"
                " VALUES ((SELECT coalesce(max(seq), 0) + 1 FROM session_history), ?)",
                line.decode(),
            )
            self._statements.lines.append(line)

    def tail(self, limit: int) -> list[SessionEvent]:
        """The newest events, oldest first."""
        rows = self._statements.rows(
            "SELECT value FROM session_history ORDER BY seq DESC LIMIT ?", limit
        )
        return [_event(row[0]) for row in reversed(rows)]

    def all(self) -> list[SessionEvent]:
        return self.after(0)

    def after(self, place: int) -> list[SessionEvent]:
        rows = self._statements.rows(
            "SELECT value FROM session_history WHERE seq > ? ORDER BY seq", place
        )
        return [_event(row[0]) for row in rows]

    def places(self) -> tuple[int, int]:
        """Those of the first and the last event, 0 without any; after `replace`, others."""
        number = self._statements.number
        return (
            number("SELECT coalesce(min(seq), 0) FROM session_history"),
            number("SELECT coalesce(max(seq), 0) FROM session_history"),
        )

    def replace(self, events: list[SessionEvent]) -> None:
        """Replace all events by those that a person wrote into the file."""
        _, last = self.places()
        self.append(*events)
        self._statements.write(
            "session_history", "DELETE FROM session_history WHERE seq <= ?", last
        )
        self._statements.lines.clear()


class _KeptEvents(NamedTuple):
    first: int = 0
    last: int = 0
    events: tuple[SessionEvent, ...] = ()


class KeptHistory:
    """The session history, of which each event is read once until it is replaced."""

    def __init__(self) -> None:
        self._kept = _KeptEvents()

    def events(self, history: SessionHistory) -> tuple[SessionEvent, ...]:
        """All events, in order."""
        kept, (first, last) = self._kept, history.places()
        if first != kept.first or last < kept.last:
            kept = _KeptEvents(first)
        if last > kept.last:
            kept = _KeptEvents(first, last, (*kept.events, *history.after(kept.last)))
        self._kept = kept
        return kept.events


def _event(stored: str) -> SessionEvent:
    return SESSION_EVENTS.decode(stored.encode())
