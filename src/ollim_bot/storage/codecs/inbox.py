"""How a row of the inbox stands on its line: `{"at": …, "row": "accepted", …}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from ollim_bot.domain.chat import MessageId, TurnId
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
    Occasion,
    OwnerMessage,
    ProgramTurn,
)
from ollim_bot.domain.jobs import Chain, JobKind
from ollim_bot.domain.sessions import SessionId
from ollim_bot.storage.codecs.messages import (
    attachments_json,
    attachments_of,
    untrusted_json,
    untrusted_of,
)
from ollim_bot.storage.codecs.updates import updates_json, updates_of
from ollim_bot.storage.file_store import Malformed
from ollim_bot.storage.json_fields import Fields, parse_json, render_json
from ollim_bot.storage.json_lines import LineCodec


def _encode_row(row: InboxRow) -> bytes:
    return render_json({"at": row.at.isoformat()} | _row_json(row))


def _row_json(row: InboxRow) -> dict[str, object]:
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
    }


def _origin_json(origin: ForkOrigin) -> dict[str, object]:
    return {
        "session": origin.session,
        "at": origin.at.isoformat(),
        "is_expired": origin.is_expired,
    }


def _decode_row(line: bytes) -> InboxRow:
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
        fields.choice("occasion", Occasion),
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


INBOX_ROWS = LineCodec(_encode_row, _decode_row, lambda row: row.at)
