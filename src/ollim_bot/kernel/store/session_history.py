"""The events of sessions, which people can read in `session_history.jsonl`."""

from __future__ import annotations

from ollim_bot.kernel.store.codecs.record_codecs import SESSION_EVENTS
from ollim_bot.kernel.store.connection import Statements
from ollim_bot.kernel.values.sessions import SessionEvent

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
        return self._found("ORDER BY seq DESC LIMIT ?", limit)[::-1]

    def all(self) -> list[SessionEvent]:
        return self.after(0)

    def after(self, place: int) -> list[SessionEvent]:
        return self._found("WHERE seq > ? ORDER BY seq", place)

    def _found(self, condition: str, number: int) -> list[SessionEvent]:
        rows = self._statements.rows(f"SELECT value FROM session_history {condition}", number)
        return [SESSION_EVENTS.decode(row[0].encode()) for row in rows]

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


class KeptHistory:
    """The session history, of which each event is read once until it is replaced."""

    def __init__(self) -> None:
        # The places of the first and of the last event, and the events.
        self._kept: tuple[int, int, tuple[SessionEvent, ...]] = 0, 0, ()

    def events(self, history: SessionHistory) -> tuple[SessionEvent, ...]:
        """All events, in order."""
        (former, known, events), (first, last) = self._kept, history.places()
        if first != former or last < known:
            known, events = 0, ()
        if last > known:
            events = (*events, *history.after(known))
        self._kept = first, last, events
        return events
