"""The rows of the inbox as lines of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from ollim_bot.domain.inbox import (
    Accepted,
    CommandCall,
    Edited,
    Ended,
    InboxRow,
    JobTurn,
    OwnerMessage,
    ProgramTurn,
    Released,
    Taken,
    ToolCalled,
)
from ollim_bot.domain.jobs import Chain
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.updates import PendingUpdates
from ollim_bot.store.codecs.ledger import OCCURRENCE
from ollim_bot.store.codecs.messages import LAYOUTS
from ollim_bot.store.codecs.plain import JsonFormat, Layout, LineCodec, Wrong, whole
from ollim_bot.store.codecs.records import updates_json, updates_of
from ollim_bot.store.file_store import Malformed, parse_json, render_json

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
