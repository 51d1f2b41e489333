"""Single values of the state as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from ollim_bot.domain.browsers import KnownBrowser, KnownBrowsers
from ollim_bot.domain.cards import ButtonPrompt, ButtonPrompts
from ollim_bot.domain.forks import Fork, ForkMessage
from ollim_bot.domain.pings import LARGEST_LIMIT, PingBudget
from ollim_bot.domain.runtime_config import (
    MADE_BEFORE_DAILY_LIMIT,
    RuntimeConfig,
    parse_config,
)
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.updates import PendingUpdate, PendingUpdates, omission_notice
from ollim_bot.store.file_store import Malformed
from ollim_bot.store.json_fields import (
    FORMAT,
    Fields,
    parse_json,
    render_json,
    versioned,
    versioned_list,
)

_OMISSION = re.compile(r"\(([0-9]{1,9}) earlier update\(s\) omitted — cap reached\)")


class PendingUpdatesCodec:
    """A list of `{ts, message, id, untrusted}`; the notice of omitted ones is first, without id."""

    def missing(self) -> PendingUpdates:
        return PendingUpdates()

    def decode(self, raw: bytes) -> tuple[PendingUpdates, tuple[str, ...]]:
        return updates_of(versioned_list(parse_json(raw))), ()

    def encode(self, value: PendingUpdates) -> bytes | None:
        entries = updates_json(value)
        return render_json(entries, indent=1) if entries else None


def updates_of(values: list[object]) -> PendingUpdates:
    entries = tuple(_pending_update(value) for value in values)
    notice = _OMISSION.fullmatch(entries[0].message) if len(entries) > 1 else None
    if notice is None or entries[0].id is not None:
        return PendingUpdates(entries)
    since = Fields(values[0]).text_or_none("since")
    return PendingUpdates(entries[1:], int(notice[1]), since)


def updates_json(value: PendingUpdates) -> list[object]:
    entries: list[object] = [_pending_update_json(entry) for entry in value.entries]
    if value.omitted:
        ts, message = value.entries[0].ts.isoformat(), omission_notice(value.omitted)
        entries.insert(0, {"ts": ts, "message": message, "since": value.since})
    return entries


def _pending_update(value: object) -> PendingUpdate:
    fields = Fields(value, "an update")
    return PendingUpdate(
        fields.moment("ts"),
        fields.text("message"),
        fields.text_or_none("id"),
        fields.text_or_none("untrusted") or "",
    )


def _pending_update_json(update: PendingUpdate) -> dict[str, object]:
    entry: dict[str, object] = {"ts": update.ts.isoformat(), "message": update.message}
    marked = {"id": update.id, "untrusted": update.untrusted}
    return entry | {name: value for name, value in marked.items() if value}


Warnings = tuple[str, ...]

_SECOND = timedelta(seconds=1)


class ForkCodec:
    def missing(self) -> Fork | None:
        return None

    def decode(self, raw: bytes) -> tuple[Fork | None, Warnings]:
        fields = Fields(versioned(parse_json(raw)))
        return (
            Fork(
                id=fields.text("id"),
                session=_session(fields, "session"),
                main=_session(fields, "main"),
                topic=fields.text_or_none("topic") or "",
                idle_limit=_SECOND
                * fields.whole("idle_seconds", least=1, most=timedelta.max // _SECOND),
                last_activity=fields.moment("last_activity"),
                began=fields.moment("began"),
                resumed_from=_session(fields, "resumed_from"),
                is_prompted=fields.flag("is_prompted"),
                has_answered=fields.flag("has_answered"),
                last_answer=fields.text_or_none("last_answer") or "",
                resumed_at=_moment(fields, "resumed_at"),
                model=fields.text_or_none("model"),
                seen=tuple(fields.texts("seen")),
            ),
            (),
        )

    def encode(self, value: Fork | None) -> bytes | None:
        if value is None:
            return None
        stored: dict[str, object] = {
            "version": FORMAT,
            "id": value.id,
            "session": value.session,
            "main": value.main,
            "topic": value.topic,
            "idle_seconds": max(1, value.idle_limit // _SECOND),
            "last_activity": value.last_activity.isoformat(),
            "began": value.began.isoformat(),
            "resumed_from": value.resumed_from,
            "is_prompted": value.is_prompted,
            "has_answered": value.has_answered,
            "last_answer": value.last_answer,
            "resumed_at": None if value.resumed_at is None else value.resumed_at.isoformat(),
            "model": value.model,
            "seen": list(value.seen),
        }
        return render_json(stored, indent=2)


def _session(fields: Fields, name: str) -> SessionId | None:
    text = fields.text_or_none(name)
    return SessionId(text) if text else None


def _moment(fields: Fields, name: str) -> datetime | None:
    return None if fields.text_or_none(name) is None else fields.moment(name)


_MOST_GENERATIONS = 2**31 - 1


class KnownBrowsersCodec:
    def missing(self) -> KnownBrowsers:
        return KnownBrowsers()

    def decode(self, raw: bytes) -> tuple[KnownBrowsers, Warnings]:
        items = Fields(versioned(parse_json(raw))).items("browsers")
        return KnownBrowsers(tuple(_browser(Fields(item, "browsers")) for item in items)), ()

    def encode(self, value: KnownBrowsers) -> bytes | None:
        if not value.all:
            return None
        browsers = [
            {"id": each.id, "generation": each.generation, "used": each.used.isoformat()}
            for each in value.all
        ]
        return render_json({"version": FORMAT, "browsers": browsers}, indent=2)


def _browser(fields: Fields) -> KnownBrowser:
    return KnownBrowser(
        fields.text("id"),
        fields.whole("generation", least=1, most=_MOST_GENERATIONS),
        fields.moment("used"),
    )


class SessionIdCodec:
    """The bare id, not JSON; a missing file means that there is no session."""

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
    def missing(self) -> ButtonPrompts:
        return ButtonPrompts()

    def decode(self, raw: bytes) -> tuple[ButtonPrompts, Warnings]:
        stored = versioned(parse_json(raw))
        return ButtonPrompts(tuple(_inquiry(key, value) for key, value in stored.items())), ()

    def encode(self, value: ButtonPrompts) -> bytes:
        stored = {each.key: _inquiry_json(each) for each in value.waiting}
        return render_json({"version": FORMAT} | stored)


def _inquiry_json(inquiry: ButtonPrompt) -> dict[str, object]:
    stored: dict[str, object] = {"prompt": inquiry.prompt, "ts": inquiry.ts}
    return stored | ({"untrusted": list(inquiry.untrusted)} if inquiry.untrusted else {})


def _inquiry(key: str, value: object) -> ButtonPrompt:
    if not re.fullmatch(r"[0-9a-f]{8}", key):
        raise Malformed(f"{key!r} is not a key of 8 hexadecimal characters")
    fields = Fields(value, key)
    untrusted = tuple(fields.texts("untrusted"))
    return ButtonPrompt(key, fields.text("prompt"), fields.number("ts"), untrusted)


class PingBudgetCodec:
    """A missing file is a full budget, as of `now`."""

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
    """Only the values that differ from the defaults; a wrong one is reported, ignored and kept."""

    def missing(self) -> RuntimeConfig:
        return RuntimeConfig()

    def decode(self, raw: bytes) -> tuple[RuntimeConfig, Warnings]:
        config, problems = parse_config(versioned(parse_json(raw)))
        return config, tuple(problems)

    def encode(self, value: RuntimeConfig) -> bytes | None:
        mark = {MADE_BEFORE_DAILY_LIMIT: True} if value.made_before_daily_limit else {}
        stored = dict(value.unread) | value.changed() | mark
        return render_json({"version": FORMAT} | stored, indent=1) if stored else None


class MemoryCodec:
    """Small facts by name, of any JSON type."""

    def missing(self) -> Mapping[str, object]:
        return {}

    def decode(self, raw: bytes) -> tuple[Mapping[str, object], Warnings]:
        return versioned(parse_json(raw)), ()

    def encode(self, value: Mapping[str, object]) -> bytes:
        return render_json({"version": FORMAT} | dict(value), indent=1)
