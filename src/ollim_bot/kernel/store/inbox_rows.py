"""The inbox in tables: the inputs that have no end, the running turn, and the ids of all inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from ollim_bot.kernel.store.codecs.ledger_codec import OCCURRENCE
from ollim_bot.kernel.store.codecs.message_codec import LAYOUTS
from ollim_bot.kernel.store.codecs.plain import JsonFormat, Layout, LineCodec, Wrong, whole
from ollim_bot.kernel.store.codecs.record_codecs import updates_json, updates_of
from ollim_bot.kernel.store.connection import Statements, escaped, microseconds
from ollim_bot.kernel.store.file_store import Malformed, parse_json, render_json
from ollim_bot.kernel.values.inbox import (
    Accepted,
    CommandCall,
    Edited,
    Ended,
    Inbox,
    InboxRow,
    InputEnd,
    InputId,
    JobTurn,
    OwnerMessage,
    ProgramTurn,
    Released,
    Taken,
    ToolCalled,
)
from ollim_bot.kernel.values.jobs import Chain
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.updates import PendingUpdates

_ROWS = JsonFormat(
    {
        **LAYOUTS,
        Taken: Layout(
            always=("session", "claim"),
            needed=("attempt", "prompt"),
            forms={"attempt": whole(least=1)},
        ),
        CommandCall: Layout(full=True),
        ProgramTurn: Layout(needed=("topic",)),
        JobTurn: Layout(always=("chain", "late_since", "skills")),
        Chain: Layout(full=True, needed=("max", "depth")),
    },
    forms={Occurrence: OCCURRENCE, PendingUpdates: (updates_of, updates_json)},
)


@dataclass(frozen=True, slots=True)
class _AcceptedInput:
    """An accepted row: the input stands under the name of its kind."""

    at: datetime
    message: OwnerMessage | None = None
    command: CommandCall | None = None
    program: ProgramTurn | None = None
    job: JobTurn | None = None


_INPUT_NAMES = {
    OwnerMessage: "message",
    CommandCall: "command",
    ProgramTurn: "program",
    JobTurn: "job",
}
_INBOX: Mapping[str, type] = {
    "accepted": _AcceptedInput,
    "edited": Edited,
    "taken": Taken,
    "tool_called": ToolCalled,
    "released": Released,
    "ended": Ended,
}
_ROW_NAMES = {kind: name for name, kind in _INBOX.items()}


def _encode_inbox_row(row: InboxRow) -> bytes:
    if isinstance(row, Accepted):
        accepted = {_INPUT_NAMES[type(row.input)]: _ROWS.write(row.input)}
        return render_json({"at": row.at.isoformat(), "row": "accepted", **accepted})
    stored = _ROWS.write(row)
    return render_json({"at": stored["at"], "row": _ROW_NAMES[type(row)], **stored})


def _decode_inbox_row(line: bytes) -> InboxRow:
    stored = parse_json(line)
    if not isinstance(stored, dict):
        raise Wrong("is not an object")
    kind = _INBOX.get(str(stored.get("row")))
    if kind is None:
        raise Wrong("is not one that is known" if "row" in stored else "is missing", "row")
    row: object = _ROWS.read(kind, stored)
    if not isinstance(row, _AcceptedInput):
        return cast(InboxRow, row)
    accepted = row.message or row.command or row.program or row.job
    if accepted is None:
        raise Malformed("neither a message nor a command was accepted")
    return Accepted(row.at, accepted)


INBOX_ROWS = LineCodec(_encode_inbox_row, _decode_inbox_row)


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
                        *(row.end.value, microseconds(row.at), escaped(each.id)),
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
