"""The inbox in tables: the inputs that have no end, the running turn, and the ids of all inputs."""

from __future__ import annotations

from ollim_bot.domain.inbox import (
    Accepted,
    Ended,
    Inbox,
    InboxRow,
    InputEnd,
    InputId,
    Taken,
    ToolCalled,
)
from ollim_bot.store.codecs.inbox import INBOX_ROWS
from ollim_bot.store.connection import Statements, escaped, microseconds


class InboxInputs:
    """Applies inbox rows to tables; the cost grows only with the number of open inputs."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def get(self) -> Inbox:
        """The inputs without an end. `seen` names only those: `has` knows all."""
        found = self._statements.rows(
            "SELECT value, 0 AS is_turn, seq FROM inputs WHERE ended IS NULL"
            " UNION ALL SELECT value, 1 AS is_turn, seq FROM inbox_turn ORDER BY is_turn, seq"
        )
        rows = [INBOX_ROWS.decode(row[0].encode()) for row in found]
        accepted = tuple(row.input for row in rows if isinstance(row, Accepted))
        running = next((row for row in rows if isinstance(row, Taken)), None)
        tools = tuple(row for row in rows if isinstance(row, ToolCalled))
        return Inbox(accepted, running, tools, frozenset(each.id for each in accepted))

    def has(self, input_id: InputId) -> bool:
        """Whether the input was ever accepted, so that a repeated send does nothing."""
        key = escaped(input_id)
        return self._statements.row("SELECT 1 FROM inputs WHERE id = ?", key) is not None

    def end_of(self, input_id: InputId) -> InputEnd | None:
        """How the input ended; None if it has no end or was never accepted."""
        found = self._statements.row("SELECT ended FROM inputs WHERE id = ?", escaped(input_id))
        return None if found is None or found[0] is None else InputEnd(found[0])

    def append(self, *rows: InboxRow) -> Inbox:
        """Apply rows in order, and return the resulting inbox.

        A row that does not fit changes nothing, for example an input that was accepted before.
        """
        inbox = self.get()
        for row in rows:
            if isinstance(row, Accepted) and self.has(row.input.id):
                continue
            after = inbox.after(row)
            self._write_inputs(inbox, after, row)
            self._write_turn(inbox, after)
            inbox = after
        return inbox

    def _write_inputs(self, before: Inbox, after: Inbox, row: InboxRow) -> None:
        old = {each.id: each for each in before.accepted}
        for each in after.accepted:
            if each == old.get(each.id):
                continue
            self._statements.write(
                "inbox",
                "INSERT INTO inputs (seq, id, value)"
                " VALUES ((SELECT coalesce(max(seq), 0) + 1 FROM inputs), ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET value = excluded.value",
                escaped(each.id),
                INBOX_ROWS.encode(Accepted(row.at, each)).decode(),
            )
        left = {each.id for each in after.accepted}
        if isinstance(row, Ended):
            for each in before.accepted:
                if each.id not in left:
                    self._statements.write(
                        "inbox",
                        "UPDATE inputs SET value = NULL, ended = ?, ended_at = ? WHERE id = ?",
                        row.end.value,
                        microseconds(row.at),
                        escaped(each.id),
                    )

    def _write_turn(self, before: Inbox, after: Inbox) -> None:
        if before.running == after.running and before.tools == after.tools:
            return
        known = len(before.tools)
        goes_on = before.running == after.running and before.tools == after.tools[:known]
        rows: tuple[Taken | ToolCalled, ...] = after.tools[known:]
        if not goes_on:
            self._statements.write("inbox", "DELETE FROM inbox_turn")
            rows = () if after.running is None else (after.running, *after.tools)
        for row in rows:
            self._statements.write(
                "inbox",
                "INSERT INTO inbox_turn (seq, value)"
                " VALUES ((SELECT coalesce(max(seq), 0) + 1 FROM inbox_turn), ?)",
                INBOX_ROWS.encode(row).decode(),
            )
