"""How a row of the outbox stands on its line: `{"at": …, "row": "sending", …}`."""

from __future__ import annotations

from datetime import datetime

from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.outgoing import (
    Charge,
    NotSent,
    OutboxRow,
    Sending,
    Sent,
    Settled,
    Tried,
    Unsure,
)
from ollim_bot.domain.sessions import SessionId
from ollim_bot.storage.codecs.messages import message_json, message_of
from ollim_bot.storage.file_store import Malformed
from ollim_bot.storage.json_fields import Fields, parse_json, render_json
from ollim_bot.storage.json_lines import LineCodec


def _encode_row(row: OutboxRow) -> bytes:
    return render_json({"at": row.at.isoformat()} | _row_json(row))


def _row_json(row: OutboxRow) -> dict[str, object]:
    match row:
        case Sending():
            return {"row": "sending", "message": message_json(row.message)} | _sending_json(row)
        case Tried():
            return {"row": "tried", "id": row.id} | _given(refs=list(row.refs))
        case Sent():
            return {"row": "sent", "id": row.id, "ref": row.ref}
        case NotSent():
            rest = _given(refund=row.refund, service=row.service)
            return {"row": "not_sent", "id": row.id, "reason": row.reason} | rest
        case Unsure():
            return {"row": "unsure", "id": row.id} | _given(service=row.service)
        case Settled():
            return {"row": "settled", "id": row.id}


def _sending_json(row: Sending) -> dict[str, object]:
    rest = _given(payment=row.payment, fork=row.fork, parent=row.parent)
    return {"charge": row.charge.value} | rest


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value}


def _decode_row(line: bytes) -> OutboxRow:
    fields = Fields(parse_json(line))
    at, kind = fields.moment("at"), fields.text("row")
    if kind == "sending":
        return _sending(at, fields)
    message_id = MessageId(fields.text("id"))
    service = fields.text_or_none("service") or ""
    match kind:
        case "tried":
            return Tried(at, message_id, tuple(fields.texts("refs")))
        case "sent":
            return Sent(at, message_id, fields.text_or_none("ref") or "")
        case "not_sent":
            refund = fields.whole_or_none("refund") or 0
            return NotSent(at, message_id, fields.text("reason"), refund, service)
        case "unsure":
            return Unsure(at, message_id, service)
        case "settled":
            return Settled(at, message_id)
    raise Malformed(f"not a row of the outbox: {kind}")


def _sending(at: datetime, fields: Fields) -> Sending:
    message = fields.below("message")
    if message is None:
        raise Malformed("a message to be sent without the message")
    fork, parent = fields.text_or_none("fork"), fields.text_or_none("parent")
    try:
        return Sending(
            at,
            message_of(message),
            fields.choice("charge", Charge),
            fields.whole_or_none("payment") or 0,
            fork=SessionId(fork) if fork else None,
            parent=SessionId(parent) if parent else None,
        )
    except ValueError as wrong:
        raise Malformed(str(wrong)) from None


OUTBOX_ROWS = LineCodec(_encode_row, _decode_row, lambda row: row.at)
