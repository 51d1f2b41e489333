"""Rows of the logs as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Generic, TypeVar

from ollim_bot.domain.cards import Button, ButtonStyle, Card, CardField, CardLine, Color
from ollim_bot.domain.chat import Attachment, Author, ChatMessage, MessageId, TurnCost, TurnId
from ollim_bot.domain.digest import HeldMessage, HeldMessages
from ollim_bot.domain.inbox import (
    Accepted,
    Edited,
    Ended,
    InboxRow,
    InputEnd,
    Released,
    Taken,
    ToolCalled,
)
from ollim_bot.domain.inputs import (
    CommandCall,
    ForkOrigin,
    Input,
    InputId,
    JobTurn,
    OwnerMessage,
    ProgramTurn,
    ProgramTurnReason,
)
from ollim_bot.domain.jobs import Chain, JobKind
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.outgoing import NotSent, OutboxRow, Sending, Sent, Settled, Tried, Unsure
from ollim_bot.domain.pings import Charge
from ollim_bot.domain.sessions import SessionChange, SessionEvent, SessionId
from ollim_bot.domain.taint import Untrusted
from ollim_bot.store.codecs.records import updates_json, updates_of
from ollim_bot.store.file_store import Malformed
from ollim_bot.store.json_fields import Fields, parse_json, render_json, versioned_list

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LineCodec(Generic[T]):
    """`decode` raises `Malformed`, and nothing else, for a line that is not an entry."""

    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]


def card_json(card: Card) -> dict[str, object]:
    rest: dict[str, object] = {
        "description": card.description,
        "fields": [
            {"name": one.name, "value": one.value, "inline": one.inline} for one in card.fields
        ],
        "buttons": [_button_json(one) for one in card.buttons],
        "lines": [{"text": one.text, "heading": one.heading} for one in card.lines],
        "earlier_of": card.earlier_of,
    }
    head: dict[str, object] = {"title": card.title, "color": card.color.value}
    return head | {name: value for name, value in rest.items() if value}


def _button_json(button: Button) -> dict[str, object]:
    named: dict[str, object] = {
        "label": button.label,
        "action": button.action,
        "data": button.data,
        "style": button.style.value,
        "is_used": button.is_used,
    }
    rest = {"line": button.line, "asks": button.asks}
    return named | {name: value for name, value in rest.items() if value}


def card_of(fields: Fields) -> Card:
    return Card(
        title=fields.text("title"),
        description=fields.text_or_none("description") or "",
        color=fields.choice("color", Color),
        fields=tuple(_field(value) for value in fields.items("fields")),
        buttons=tuple(_button(value) for value in fields.items("buttons")),
        lines=tuple(_line(value) for value in fields.items("lines")),
        earlier_of=fields.text_or_none("earlier_of") or "",
    )


def _field(value: object) -> CardField:
    fields = Fields(value, "a field of a card")
    return CardField(fields.text("name"), fields.text("value"), fields.flag("inline"))


def _button(value: object) -> Button:
    fields = Fields(value, "a button of a card")
    return Button(
        fields.text("label"),
        fields.text("action"),
        fields.text_or_none("data") or "",
        fields.choice("style", ButtonStyle),
        fields.flag("is_used"),
        fields.whole_or_none("line") or 0,
        fields.text_or_none("asks") or "",
    )


def _line(value: object) -> CardLine:
    fields = Fields(value, "a line of a card")
    return CardLine(fields.text("text"), fields.text_or_none("heading") or "")


def message_json(message: ChatMessage) -> dict[str, object]:
    head: dict[str, object] = {
        "at": message.at.isoformat(),
        "id": message.id,
        "author": message.author.value,
        "text": message.text,
    }
    spent = message.spent
    rest = {
        "reply_to": message.reply_to,
        "attachments": attachments_json(message.attachments),
        "turn": message.turn,
        "session": message.session,
        "is_cut_off": message.is_cut_off,
        "spent": None if spent is None else _spent_json(spent),
        "footer": message.footer,
        "card": None if message.card is None else card_json(message.card),
        "job": message.job,
        "in_fork": message.in_fork,
        "occurrence": message.occurrence,
        "refs": dict(message.refs),
        "untrusted": untrusted_json(message.untrusted),
        "began": None if message.began is None else message.began.isoformat(),
        "pings": list(message.pings),
    }
    return head | {name: value for name, value in rest.items() if value}


def message_of(fields: Fields) -> ChatMessage:
    card = fields.below("card")
    reply_to, turn = fields.text_or_none("reply_to"), fields.text_or_none("turn")
    session, spent = fields.text_or_none("session"), fields.below("spent")
    return ChatMessage(
        id=MessageId(fields.text("id")),
        at=fields.moment("at"),
        author=fields.choice("author", Author),
        text=fields.text("text"),
        reply_to=MessageId(reply_to) if reply_to else None,
        attachments=attachments_of(fields),
        turn=TurnId(turn) if turn else None,
        session=SessionId(session) if session else None,
        is_cut_off=fields.flag("is_cut_off"),
        spent=None if spent is None else _spent(spent),
        footer=fields.text_or_none("footer") or "",
        card=None if card is None else card_of(card),
        job=fields.text_or_none("job") or "",
        in_fork=fields.flag("in_fork"),
        occurrence=fields.text_or_none("occurrence") or "",
        refs=fields.texts_by_name("refs"),
        untrusted=untrusted_of(fields, "untrusted"),
        began=fields.moment("began") if fields.text_or_none("began") else None,
        pings=tuple(map(MessageId, fields.texts("pings"))),
    )


CHAT_MESSAGES = LineCodec(
    lambda message: render_json(message_json(message)),
    lambda line: message_of(Fields(parse_json(line))),
)


class HeldMessagesCodec:
    def missing(self) -> HeldMessages:
        return HeldMessages()

    def decode(self, raw: bytes) -> tuple[HeldMessages, tuple[str, ...]]:
        held = (_held(Fields(each)) for each in versioned_list(parse_json(raw)))
        return HeldMessages(tuple(held)), ()

    def encode(self, value: HeldMessages) -> bytes | None:
        return render_json([_held_json(each) for each in value.waiting]) if value.waiting else None


def _held_json(held: HeldMessage) -> dict[str, object]:
    rest = _given(key=held.key, fork=held.fork, parent=held.parent)
    return {"message": message_json(held.message), "charge": held.charge.value} | rest


def _held(fields: Fields) -> HeldMessage:
    message = fields.below("message")
    if message is None:
        raise Malformed("a message that waits without the message")
    fork, parent = fields.text_or_none("fork"), fields.text_or_none("parent")
    return HeldMessage(
        message_of(message),
        fields.text_or_none("key") or "",
        fields.choice("charge", Charge),
        SessionId(fork) if fork else None,
        SessionId(parent) if parent else None,
    )


def untrusted_json(untrusted: Untrusted | None) -> dict[str, object] | None:
    if untrusted is None:
        return None
    return {"source": untrusted.source, "about": untrusted.about}


def untrusted_of(fields: Fields, name: str) -> Untrusted | None:
    below = fields.below(name)
    return None if below is None else Untrusted(below.text("source"), below.text("about"))


def attachments_json(attachments: tuple[Attachment, ...]) -> list[object]:
    return [
        {"name": one.name, "path": one.path, "media_type": one.media_type, "size": one.size}
        for one in attachments
    ]


def attachments_of(fields: Fields) -> tuple[Attachment, ...]:
    return tuple(_attachment(value) for value in fields.items("attachments"))


def _attachment(value: object) -> Attachment:
    fields = Fields(value, "an attachment")
    return Attachment(
        fields.text("name"), fields.text("path"), fields.text("media_type"), fields.whole("size")
    )


def _spent_json(spent: TurnCost) -> dict[str, object]:
    stored: dict[str, object] = {"cost_usd": spent.cost_usd, "context": spent.context}
    return stored if spent.window is None else stored | {"window": spent.window}


def _spent(fields: Fields) -> TurnCost:
    return TurnCost(
        fields.number("cost_usd"), fields.whole("context"), fields.whole_or_none("window")
    )


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


SESSION_EVENTS = LineCodec(_encode_session_event, _decode_session_event)


# The rows of an occurrence are mostly adjacent.
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


LEDGER_ROWS = LineCodec(_encode_ledger_row, _decode_ledger_row)


def _encode_outbox_row(row: OutboxRow) -> bytes:
    return render_json({"at": row.at.isoformat()} | _outbox_row_json(row))


def _outbox_row_json(row: OutboxRow) -> dict[str, object]:
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


def _decode_outbox_row(line: bytes) -> OutboxRow:
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


OUTBOX_ROWS = LineCodec(_encode_outbox_row, _decode_outbox_row)


def _encode_inbox_row(row: InboxRow) -> bytes:
    return render_json({"at": row.at.isoformat()} | _inbox_row_json(row))


def _inbox_row_json(row: InboxRow) -> dict[str, object]:
    match row:
        case Accepted(input=given):
            return {"row": "accepted"} | _input_json(given)
        case Edited():
            return {"row": "edited", "input": row.input, "text": row.text}
        case Taken():
            return {"row": "taken", "turn": row.turn} | _taken_json(row)
        case ToolCalled():
            called = {"turn": row.turn, "tool": row.tool, "summary": row.summary}
            return {"row": "tool_called", **called}
        case Released():
            return {"row": "released", "turn": row.turn}
        case Ended():
            return {"row": "ended", "inputs": list(row.inputs), "end": row.end.value}


def _taken_json(row: Taken) -> dict[str, object]:
    return {
        "inputs": list(row.inputs),
        "attempt": row.attempt,
        "prompt": row.prompt,
        "session": row.session,
        "claim": updates_json(row.claim),
    } | ({"in_fork": True} if row.in_fork else {})


def _input_json(given: Input) -> dict[str, object]:
    head: dict[str, object] = {
        "id": given.id,
        "surface": given.surface,
        "at": given.at.isoformat(),
    }
    if isinstance(given, CommandCall):
        return {"command": head | {"name": given.name, "arguments": dict(given.arguments)}}
    if isinstance(given, ProgramTurn):
        why = {"occasion": given.occasion.value, "fork": given.fork, "topic": given.topic}
        return {"program": head | why}
    if isinstance(given, JobTurn):
        return {"job": head | _job_json(given)}
    rest = {
        "reply_to": given.reply_to,
        "quote": given.quote,
        "attachments": attachments_json(given.attachments),
        "button": given.button,
        "origin": None if given.origin is None else _origin_json(given.origin),
        "untrusted": untrusted_json(given.untrusted),
        "untrusted_quote": untrusted_json(given.untrusted_quote),
    }
    said = {"text": given.text} | {name: value for name, value in rest.items() if value}
    return {"message": head | said}


def _job_json(turn: JobTurn) -> dict[str, object]:
    chain, late = turn.chain, turn.late_since
    return {
        "kind": turn.kind.value,
        "job": turn.job,
        "title": turn.title,
        "body": turn.body,
        "chain": {"max": chain.max, "depth": chain.depth, "parent": chain.parent},
        "late_since": None if late is None else late.isoformat(),
        **({"untrusted": turn.untrusted} if turn.untrusted else {}),
        "skills": list(turn.skills),
        **({"has_waited": True} if turn.has_waited else {}),
    }


def _origin_json(origin: ForkOrigin) -> dict[str, object]:
    return {
        "session": origin.session,
        "at": origin.at.isoformat(),
        "is_expired": origin.is_expired,
    }


def _decode_inbox_row(line: bytes) -> InboxRow:
    fields = Fields(parse_json(line))
    at, kind = fields.moment("at"), fields.text("row")
    match kind:
        case "accepted":
            return Accepted(at, _input(fields))
        case "edited":
            return Edited(at, InputId(fields.text("input")), fields.text("text"))
        case "taken":
            return _taken(at, fields)
        case "tool_called":
            turn = TurnId(fields.text("turn"))
            return ToolCalled(at, turn, fields.text("tool"), fields.text("summary"))
        case "released":
            return Released(at, TurnId(fields.text("turn")))
        case "ended":
            return Ended(at, _inputs(fields), fields.choice("end", InputEnd))
        case _:
            raise Malformed("row is not one that is known")


def _taken(at: datetime, fields: Fields) -> Taken:
    session = fields.text_or_none("session")
    return Taken(
        at,
        TurnId(fields.text("turn")),
        _inputs(fields),
        attempt=fields.whole("attempt", least=1),
        prompt=fields.text("prompt"),
        session=None if session is None else SessionId(session),
        claim=updates_of(fields.items("claim")),
        in_fork=fields.flag("in_fork"),
    )


def _inputs(fields: Fields) -> tuple[InputId, ...]:
    return tuple(InputId(each) for each in fields.texts("inputs"))


def _input(fields: Fields) -> Input:
    makers: Mapping[str, Callable[[Fields], Input]] = {
        "message": _owner_message,
        "command": _command_call,
        "program": _program_turn,
        "job": _job_turn,
    }
    for name, make in makers.items():
        if (below := fields.below(name)) is not None:
            return make(below)
    raise Malformed("neither a message nor a command was accepted")


def _owner_message(fields: Fields) -> OwnerMessage:
    reply_to, origin = fields.text_or_none("reply_to"), fields.below("origin")
    return OwnerMessage(
        InputId(fields.text("id")),
        fields.text("surface"),
        fields.moment("at"),
        fields.text("text"),
        reply_to=MessageId(reply_to) if reply_to else None,
        quote=fields.text_or_none("quote") or "",
        attachments=attachments_of(fields),
        button=fields.text_or_none("button") or "",
        origin=None if origin is None else _origin(origin),
        untrusted=untrusted_of(fields, "untrusted"),
        untrusted_quote=untrusted_of(fields, "untrusted_quote"),
    )


def _origin(fields: Fields) -> ForkOrigin:
    session = SessionId(fields.text("session"))
    return ForkOrigin(session, fields.moment("at"), fields.flag("is_expired"))


def _program_turn(fields: Fields) -> ProgramTurn:
    return ProgramTurn(
        InputId(fields.text("id")),
        fields.text("surface"),
        fields.moment("at"),
        fields.choice("occasion", ProgramTurnReason),
        fields.text("fork"),
        fields.text("topic"),
    )


def _job_turn(fields: Fields) -> JobTurn:
    chain = fields.below("chain")
    return JobTurn(
        InputId(fields.text("id")),
        fields.text("surface"),
        fields.moment("at"),
        fields.choice("kind", JobKind),
        fields.text("job"),
        fields.text("title"),
        fields.text("body"),
        Chain() if chain is None else _chain(chain),
        None if fields.text_or_none("late_since") is None else fields.moment("late_since"),
        fields.text_or_none("untrusted") or "",
        tuple(fields.texts("skills")),
        fields.flag("has_waited"),
    )


def _chain(fields: Fields) -> Chain:
    return Chain(fields.whole("max"), fields.whole("depth"), fields.text_or_none("parent"))


def _command_call(fields: Fields) -> CommandCall:
    return CommandCall(
        InputId(fields.text("id")),
        fields.text("surface"),
        fields.moment("at"),
        fields.text("name"),
        fields.texts_by_name("arguments"),
    )


INBOX_ROWS = LineCodec(_encode_inbox_row, _decode_inbox_row)
