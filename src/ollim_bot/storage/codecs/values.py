"""How each value of `state/` stands in its file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime

from ollim_bot.domain.fork_messages import ForkMessage
from ollim_bot.domain.inquiries import Inquiries, Inquiry
from ollim_bot.domain.pings import LARGEST_LIMIT, PingBudget
from ollim_bot.domain.runtime_config import RuntimeConfig, parse_config
from ollim_bot.domain.sessions import SessionId
from ollim_bot.storage.file_store import Malformed
from ollim_bot.storage.json_fields import (
    FORMAT,
    Fields,
    parse_json,
    render_json,
    versioned,
    versioned_list,
)

Warnings = tuple[str, ...]


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
        stored = {each.key: _inquiry_json(each) for each in value.waiting}
        return render_json({"version": FORMAT} | stored)


def _inquiry_json(inquiry: Inquiry) -> dict[str, object]:
    stored: dict[str, object] = {"prompt": inquiry.prompt, "ts": inquiry.ts}
    return stored | ({"untrusted": list(inquiry.untrusted)} if inquiry.untrusted else {})


def _inquiry(key: str, value: object) -> Inquiry:
    if not re.fullmatch(r"[0-9a-f]{8}", key):
        raise Malformed(f"{key!r} is not a key of 8 hexadecimal characters")
    fields = Fields(value, key)
    untrusted = tuple(fields.texts("untrusted"))
    return Inquiry(key, fields.text("prompt"), fields.number("ts"), untrusted)


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
            payments=fields.whole_or_none("payments") or 0,
            held=tuple(fields.texts("held")),
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
        if value.payments:
            stored["payments"] = value.payments
        if value.held:
            stored["held"] = list(value.held)
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
