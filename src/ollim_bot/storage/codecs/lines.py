"""How an event of a session and a row of the ledger stand on their lines."""

from __future__ import annotations

from functools import lru_cache

from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.sessions import SessionChange, SessionEvent, SessionId
from ollim_bot.storage.file_store import Malformed
from ollim_bot.storage.json_fields import Fields, parse_json, render_json
from ollim_bot.storage.json_lines import LineCodec


def _encode_session_event(event: SessionEvent) -> bytes:
    return render_json(
        {
            "session_id": event.session_id,
            "event": event.event.value,
            "timestamp": event.timestamp.isoformat(),
            "parent_session_id": event.parent_session_id,
        }
    )


def _decode_session_event(line: bytes) -> SessionEvent:
    fields = Fields(parse_json(line))
    parent = fields.text_or_none("parent_session_id")
    return SessionEvent(
        SessionId(fields.text("session_id")),
        fields.choice("event", SessionChange),
        fields.moment("timestamp"),
        None if parent is None else SessionId(parent),
    )


SESSION_EVENTS = LineCodec(
    _encode_session_event, _decode_session_event, lambda event: event.timestamp
)


# The rows of an occurrence mostly stand next to each other.
_parsed = lru_cache(maxsize=64)(Occurrence.parse)


def _encode_ledger_row(row: LedgerRow) -> bytes:
    head: dict[str, object] = {"ts": row.ts.isoformat()}
    if row.occurrence is not None:
        head["occurrence"] = row.occurrence.id
    head["state"] = row.state
    return render_json({**head, **row.facts, **head})


def _decode_ledger_row(line: bytes) -> LedgerRow:
    fields = Fields(parse_json(line))
    occurrence = fields.text_or_none("occurrence")
    try:
        parsed = None if occurrence is None else _parsed(occurrence)
    except ValueError as error:
        raise Malformed(str(error)) from None
    facts = fields.others("ts", "occurrence", "state")
    return LedgerRow(fields.moment("ts"), fields.text("state"), parsed, facts)


LEDGER_ROWS = LineCodec(_encode_ledger_row, _decode_ledger_row, lambda row: row.ts)
