"""Rows of the logs as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

from ollim_bot.domain.cards import Button, Card, CardField, CardLine
from ollim_bot.domain.chat import Attachment, ChatMessage, TurnCost
from ollim_bot.domain.digest import HeldMessage, HeldMessages
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
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.outgoing import NotSent, OutboxRow, Sending, Sent, Settled, Tried, Unsure
from ollim_bot.domain.sessions import SessionEvent
from ollim_bot.domain.updates import PendingUpdates
from ollim_bot.store.codecs.plain import (
    Form,
    JsonFormat,
    Layout,
    LineCodec,
    T,
    ValueCodec,
    Wrong,
    whole,
)
from ollim_bot.store.codecs.records import updates_json, updates_of
from ollim_bot.store.file_store import Malformed
from ollim_bot.store.json_fields import parse_json, render_json, versioned_list

# The rows of an occurrence are mostly adjacent.
_parsed = lru_cache(maxsize=64)(Occurrence.parse)


def _occurrence(value: object) -> Occurrence:
    if not isinstance(value, str):
        raise Wrong("is not text")
    try:
        return _parsed(value)
    except ValueError as error:
        raise Malformed(str(error)) from None


_FORMS: Mapping[Any, Form] = {
    Occurrence: (_occurrence, lambda occurrence: occurrence.id),
    PendingUpdates: (updates_of, updates_json),
}
_FULL = Layout(full=True)

ROWS = JsonFormat(
    {
        ChatMessage: Layout(first=("at",)),
        Attachment: Layout("an attachment"),
        TurnCost: Layout(needed=("cost_usd", "context")),
        Card: Layout(first=("title", "color"), needed=("color",)),
        CardField: Layout("a field of a card", full=True),
        CardLine: Layout("a line of a card", full=True),
        Button: Layout("a button of a card", always=("data", "is_used"), needed=("style",)),
        HeldMessage: Layout(first=("message", "charge"), needed=("charge",)),
        SessionEvent: _FULL,
        LedgerRow: Layout(first=("ts", "occurrence"), rest="facts"),
        Sending: Layout(needed=("charge",)),
        Sent: _FULL,
        Taken: Layout(
            always=("session", "claim"),
            needed=("attempt", "prompt"),
            forms={"attempt": whole(least=1)},
        ),
        CommandCall: _FULL,
        ProgramTurn: Layout(needed=("topic",)),
        JobTurn: Layout(always=("chain", "late_since", "skills")),
        Chain: Layout(full=True, needed=("max", "depth")),
    },
    forms=_FORMS,
)


def _lines_of(kind: type[T]) -> LineCodec[T]:
    return LineCodec(
        lambda value: render_json(ROWS.write(value)),
        lambda line: ROWS.read(kind, parse_json(line)),
    )


CHAT_MESSAGES = _lines_of(ChatMessage)
SESSION_EVENTS = _lines_of(SessionEvent)
LEDGER_ROWS = _lines_of(LedgerRow)

HELD_MESSAGES = ValueCodec(
    HeldMessages,
    lambda raw: HeldMessages(ROWS.read_all(HeldMessage, versioned_list(parse_json(raw)))),
    lambda held: render_json([ROWS.write(each) for each in held.waiting]) if held.waiting else None,
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
_INBOX = {
    "accepted": _AcceptedInput,
    "edited": Edited,
    "taken": Taken,
    "tool_called": ToolCalled,
    "released": Released,
    "ended": Ended,
}
_OUTBOX = {
    "sending": Sending,
    "tried": Tried,
    "sent": Sent,
    "not_sent": NotSent,
    "unsure": Unsure,
    "settled": Settled,
}
_ROW_NAMES = {kind: name for name, kind in (_INBOX | _OUTBOX).items()}


def _encode_row(row: object) -> bytes:
    stored = ROWS.write(row)
    return render_json({"at": stored["at"], "row": _ROW_NAMES[type(row)], **stored})


def _decode_row(line: bytes, kinds: Mapping[str, type]) -> object:
    stored = parse_json(line)
    if not isinstance(stored, dict):
        raise Wrong("is not an object")
    kind = kinds.get(str(stored.get("row")))
    if kind is None:
        raise Wrong("is not one that is known" if "row" in stored else "is missing", "row")
    return ROWS.read(kind, stored)


def _encode_inbox_row(row: InboxRow) -> bytes:
    if isinstance(row, Accepted):
        stored = {_INPUT_NAMES[type(row.input)]: ROWS.write(row.input)}
        return render_json({"at": row.at.isoformat(), "row": "accepted", **stored})
    return _encode_row(row)


def _decode_inbox_row(line: bytes) -> InboxRow:
    row = _decode_row(line, _INBOX)
    if not isinstance(row, _AcceptedInput):
        return cast(InboxRow, row)
    accepted = row.message or row.command or row.program or row.job
    if accepted is None:
        raise Malformed("neither a message nor a command was accepted")
    return Accepted(row.at, accepted)


INBOX_ROWS = LineCodec(_encode_inbox_row, _decode_inbox_row)
OUTBOX_ROWS: LineCodec[OutboxRow] = LineCodec(
    _encode_row, lambda line: cast(OutboxRow, _decode_row(line, _OUTBOX))
)
