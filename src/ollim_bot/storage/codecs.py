"""How each value of `state/` stands in its file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime

from ollim_bot.domain.fork_messages import ForkMessage
from ollim_bot.domain.inquiries import Inquiries, Inquiry
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.pings import LARGEST_LIMIT, PingBudget
from ollim_bot.domain.runtime_config import RuntimeConfig, parse_config
from ollim_bot.domain.sessions import SessionChange, SessionEvent, SessionId
from ollim_bot.domain.updates import PendingUpdate, PendingUpdates, omission_notice
from ollim_bot.storage.file_store import Malformed
from ollim_bot.storage.json_fields import (
    FORMAT,
    Fields,
    parse_json,
    render_json,
    versioned,
    versioned_list,
)
from ollim_bot.storage.json_lines import LineCodec

Warnings = tuple[str, ...]

_OMISSION = re.compile(r"\(([0-9]{1,9}) earlier update\(s\) omitted — cap reached\)")


class SessionIdCodec:
    """The bare id, not JSON; no session is no file."""

    def missing(self) -> SessionId | None:
        return None

    def decode(self, raw: bytes) -> tuple[SessionId | None, Warnings]:
        try:
            text = raw.decode("utf-8").strip()
        except UnicodeDecodeError:
            raise Malformed("not UTF-8 text") from None
        if text and not re.fullmatch(r"[!-~]{1,200}", text):
            raise Malformed("not a session id")
        return (SessionId(text) if text else None), ()

    def encode(self, value: SessionId | None) -> bytes | None:
        return value.encode() if value else None


class PendingUpdatesCodec:
    """A list of `{ts, message, id}`; the notice of omitted ones stands first and has no id."""

    def missing(self) -> PendingUpdates:
        return PendingUpdates()

    def decode(self, raw: bytes) -> tuple[PendingUpdates, Warnings]:
        values = versioned_list(parse_json(raw))
        entries = tuple(_pending_update(value) for value in values)
        notice = _OMISSION.fullmatch(entries[0].message) if len(entries) > 1 else None
        if notice is None or entries[0].id is not None:
            return PendingUpdates(entries), ()
        since = Fields(values[0]).text_or_none("since")
        return PendingUpdates(entries[1:], int(notice[1]), since), ()

    def encode(self, value: PendingUpdates) -> bytes | None:
        entries: list[object] = [_pending_update_json(entry) for entry in value.entries]
        if value.omitted:
            ts, message = value.entries[0].ts.isoformat(), omission_notice(value.omitted)
            entries.insert(0, {"ts": ts, "message": message, "since": value.since})
        return render_json(entries, indent=1) if entries else None


def _pending_update(value: object) -> PendingUpdate:
    fields = Fields(value, "an update")
    return PendingUpdate(fields.moment("ts"), fields.text("message"), fields.text_or_none("id"))


def _pending_update_json(update: PendingUpdate) -> dict[str, object]:
    entry: dict[str, object] = {"ts": update.ts.isoformat(), "message": update.message}
    return entry if update.id is None else entry | {"id": update.id}


class ForkMessagesCodec:
    def missing(self) -> tuple[ForkMessage, ...]:
        return ()

    def decode(self, raw: bytes) -> tuple[tuple[ForkMessage, ...], Warnings]:
        return tuple(_fork_message(value) for value in versioned_list(parse_json(raw))), ()

    def encode(self, value: tuple[ForkMessage, ...]) -> bytes:
        return render_json([_fork_message_json(record) for record in value])


def _fork_message(value: object) -> ForkMessage:
    fields = Fields(value, "a message")
    parent = fields.text_or_none("parent_session_id")
    return ForkMessage(
        fields.whole("message_id"),
        SessionId(fields.text("fork_session_id")),
        None if parent is None else SessionId(parent),
        fields.number("ts"),
    )


def _fork_message_json(record: ForkMessage) -> dict[str, object]:
    return {
        "message_id": record.message_id,
        "fork_session_id": record.fork_session_id,
        "parent_session_id": record.parent_session_id,
        "ts": record.ts,
    }


class InquiriesCodec:
    def missing(self) -> Inquiries:
        return Inquiries()

    def decode(self, raw: bytes) -> tuple[Inquiries, Warnings]:
        stored = versioned(parse_json(raw))
        return Inquiries(tuple(_inquiry(key, value) for key, value in stored.items())), ()

    def encode(self, value: Inquiries) -> bytes:
        stored = {each.key: {"prompt": each.prompt, "ts": each.ts} for each in value.waiting}
        return render_json({"version": FORMAT} | stored)


def _inquiry(key: str, value: object) -> Inquiry:
    if not re.fullmatch(r"[0-9a-f]{8}", key):
        raise Malformed(f"{key!r} is not a key of 8 hexadecimal characters")
    fields = Fields(value, key)
    return Inquiry(key, fields.text("prompt"), fields.number("ts"))


class PingBudgetCodec:
    """A missing budget is a full one, as of `now`."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now

    def missing(self) -> PingBudget:
        return PingBudget.full(self._now())

    def decode(self, raw: bytes) -> tuple[PingBudget, Warnings]:
        fields = Fields(versioned(parse_json(raw)))
        available = fields.number("available")
        if available < 0:
            raise Malformed("available is below 0")
        capacity = fields.whole("capacity", least=1, most=LARGEST_LIMIT)
        budget = PingBudget(
            capacity=capacity,
            available=min(available, float(capacity)),
            refill_rate_minutes=fields.whole("refill_rate_minutes", least=1, most=LARGEST_LIMIT),
            last_refill=fields.moment("last_refill"),
            critical_used=fields.whole("critical_used"),
            critical_reset_date=fields.day("critical_reset_date"),
            daily_used=fields.whole("daily_used"),
            daily_used_reset=fields.day("daily_used_reset"),
        )
        return budget, ()

    def encode(self, value: PingBudget) -> bytes:
        stored = {
            "version": FORMAT,
            "capacity": value.capacity,
            "available": value.available,
            "refill_rate_minutes": value.refill_rate_minutes,
            "last_refill": value.last_refill.isoformat(),
            "critical_used": value.critical_used,
            "critical_reset_date": value.critical_reset_date.isoformat(),
            "daily_used": value.daily_used,
            "daily_used_reset": value.daily_used_reset.isoformat(),
        }
        return render_json(stored, indent=1)


class RuntimeConfigCodec:
    """Only what differs from the defaults; a wrong value is named, ignored and kept."""

    def missing(self) -> RuntimeConfig:
        return RuntimeConfig()

    def decode(self, raw: bytes) -> tuple[RuntimeConfig, Warnings]:
        config, problems = parse_config(versioned(parse_json(raw)))
        return config, tuple(problems)

    def encode(self, value: RuntimeConfig) -> bytes | None:
        stored = dict(value.unread) | value.changed()
        return render_json({"version": FORMAT} | stored, indent=1) if stored else None


class MemoryCodec:
    """Small facts by name, whatever they are."""

    def missing(self) -> Mapping[str, object]:
        return {}

    def decode(self, raw: bytes) -> tuple[Mapping[str, object], Warnings]:
        return versioned(parse_json(raw)), ()

    def encode(self, value: Mapping[str, object]) -> bytes:
        return render_json({"version": FORMAT} | dict(value), indent=1)


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
    try:
        change = SessionChange(fields.text("event"))
    except ValueError:
        raise Malformed("event is not known") from None
    return SessionEvent(
        SessionId(fields.text("session_id")),
        change,
        fields.moment("timestamp"),
        None if parent is None else SessionId(parent),
    )


SESSION_EVENTS = LineCodec(
    _encode_session_event, _decode_session_event, lambda event: event.timestamp
)


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
        parsed = None if occurrence is None else Occurrence.parse(occurrence)
    except ValueError as error:
        raise Malformed(str(error)) from None
    facts = fields.others("ts", "occurrence", "state")
    return LedgerRow(fields.moment("ts"), fields.text("state"), parsed, facts)


LEDGER_ROWS = LineCodec(_encode_ledger_row, _decode_ledger_row, lambda row: row.ts)
