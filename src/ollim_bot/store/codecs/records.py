"""Single values of the state as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, cast

from ollim_bot.domain.cards import Button, ButtonPrompt, ButtonPrompts, Card, CardField, CardLine
from ollim_bot.domain.chat import Attachment, ChatMessage, TurnCost
from ollim_bot.domain.digest import HeldMessage, HeldMessages
from ollim_bot.domain.forks import Fork, ForkMessage
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
from ollim_bot.domain.pings import LARGEST_LIMIT, PingBudget
from ollim_bot.domain.runtime_config import MADE_BEFORE_DAILY_LIMIT, RuntimeConfig, parse_config
from ollim_bot.domain.sessions import SessionEvent, SessionId
from ollim_bot.domain.surface_state import KnownBrowser, KnownBrowsers
from ollim_bot.domain.updates import PendingUpdate, PendingUpdates, omission_notice
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
from ollim_bot.store.file_store import (
    FORMAT,
    Malformed,
    parse_json,
    render_json,
    versioned,
    versioned_list,
)

_OMISSION = re.compile(r"\(([0-9]{1,9}) earlier update\(s\) omitted — cap reached\)")
_MOST_GENERATIONS = 2**31 - 1
_SECOND = timedelta(seconds=1)


def _seconds() -> Form:
    read, _ = whole(1, timedelta.max // _SECOND)
    return lambda value: _SECOND * read(value), lambda limit: max(1, limit // _SECOND)


def _not_below_zero(value: object) -> float:
    number: float = JsonFormat().form(float)[0](value)
    if number < 0:
        raise Wrong("is below 0")
    return number


_LIMIT = whole(1, LARGEST_LIMIT)
_RECORDS = JsonFormat(
    {
        Fork: Layout(
            full=True,
            stored_as={"idle_limit": "idle_seconds"},
            forms={"idle_limit": _seconds()},
        ),
        ForkMessage: Layout("a message"),
        KnownBrowsers: Layout(full=True, stored_as={"all": "browsers"}),
        KnownBrowser: Layout(forms={"generation": whole(1, _MOST_GENERATIONS)}),
        PendingUpdate: Layout("an update"),
        PingBudget: Layout(
            forms={
                "capacity": _LIMIT,
                "available": (_not_below_zero, None),
                "refill_rate_minutes": _LIMIT,
            }
        ),
    }
)


@dataclass(frozen=True, slots=True)
class _OmissionNotice:
    since: str | None = None


def updates_of(value: object) -> PendingUpdates:
    """Read a list of updates; the notice of omitted ones is first, without id."""
    entries = _RECORDS.read_all(PendingUpdate, value)
    notice = _OMISSION.fullmatch(entries[0].message) if len(entries) > 1 else None
    if notice is None or entries[0].id is not None:
        return PendingUpdates(entries)
    (first,) = _RECORDS.read_all(_OmissionNotice, cast(list[object], value)[:1])
    return PendingUpdates(entries[1:], int(notice[1]), first.since)


def updates_json(updates: PendingUpdates) -> list[object]:
    entries: list[object] = [_RECORDS.write(entry) for entry in updates.entries]
    if updates.omitted:
        ts, message = updates.entries[0].ts.isoformat(), omission_notice(updates.omitted)
        entries.insert(0, {"ts": ts, "message": message, "since": updates.since})
    return entries


def _stored_object(value: object, indent: int = 2) -> bytes:
    return render_json({"version": FORMAT} | _RECORDS.write(value), indent=indent)


PENDING_UPDATES = ValueCodec(
    PendingUpdates,
    lambda raw: updates_of(versioned_list(parse_json(raw))),
    lambda updates: render_json(updates_json(updates), indent=1) if updates.entries else None,
)
FORK: ValueCodec[Fork | None] = ValueCodec(
    lambda: None,
    lambda raw: _RECORDS.read(Fork, versioned(parse_json(raw))),
    lambda fork: None if fork is None else _stored_object(fork),
)
KNOWN_BROWSERS = ValueCodec(
    KnownBrowsers,
    lambda raw: _RECORDS.read(KnownBrowsers, versioned(parse_json(raw))),
    lambda browsers: _stored_object(browsers) if browsers.all else None,
)
FORK_MESSAGES: ValueCodec[tuple[ForkMessage, ...]] = ValueCodec(
    tuple,
    lambda raw: _RECORDS.read_all(ForkMessage, versioned_list(parse_json(raw))),
    lambda messages: render_json([_RECORDS.write(message) for message in messages]),
)


def _session_id(raw: bytes) -> SessionId | None:
    try:
        text = raw.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise Malformed("not UTF-8 text") from None
    if text and not re.fullmatch(r"[!-~]{1,200}", text):
        raise Malformed("not a session id")
    return SessionId(text) if text else None


# The bare id, not JSON.
SESSION_ID: ValueCodec[SessionId | None] = ValueCodec(
    lambda: None, _session_id, lambda session: session.encode() if session else None
)


def _button_prompts(raw: bytes) -> ButtonPrompts:
    stored = versioned(parse_json(raw))
    for key, value in stored.items():
        if not re.fullmatch(r"[0-9a-f]{8}", key):
            raise Malformed(f"{key!r} is not a key of 8 hexadecimal characters")
        if isinstance(value, dict):
            value["key"] = key
    prompts: dict[str, ButtonPrompt]
    prompts = _RECORDS.form(Mapping[str, ButtonPrompt])[0](stored)
    return ButtonPrompts(tuple(prompts.values()))


def _button_prompts_json(prompts: ButtonPrompts) -> bytes:
    entries = [_RECORDS.write(prompt) for prompt in prompts.waiting]
    return render_json({"version": FORMAT} | {entry.pop("key"): entry for entry in entries})


BUTTON_PROMPTS = ValueCodec(ButtonPrompts, _button_prompts, _button_prompts_json)


def _budget(raw: bytes) -> PingBudget:
    budget = _RECORDS.read(PingBudget, versioned(parse_json(raw)))
    return replace(budget, available=min(budget.available, float(budget.capacity)))


def ping_budget_codec(now: Callable[[], datetime]) -> ValueCodec[PingBudget]:
    """A missing file is a full budget, as of `now`."""
    return ValueCodec(
        lambda: PingBudget.full(now()), _budget, lambda budget: _stored_object(budget, 1)
    )


class RuntimeConfigCodec:
    """Only the values that differ from the defaults; a wrong one is reported, ignored and kept."""

    def missing(self) -> RuntimeConfig:
        return RuntimeConfig()

    def decode(self, raw: bytes) -> tuple[RuntimeConfig, tuple[str, ...]]:
        config, problems = parse_config(versioned(parse_json(raw)))
        return config, tuple(problems)

    def encode(self, value: RuntimeConfig) -> bytes | None:
        mark = {MADE_BEFORE_DAILY_LIMIT: True} if value.made_before_daily_limit else {}
        stored = dict(value.unread) | value.changed() | mark
        return render_json({"version": FORMAT} | stored, indent=1) if stored else None


# Small facts by name, of any JSON type.
MEMORY: ValueCodec[Mapping[str, object]] = ValueCodec(
    dict,
    lambda raw: versioned(parse_json(raw)),
    lambda facts: render_json({"version": FORMAT} | dict(facts), indent=1),
)


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
        accepted = {_INPUT_NAMES[type(row.input)]: ROWS.write(row.input)}
        return render_json({"at": row.at.isoformat(), "row": "accepted", **accepted})
    stored = ROWS.write(row)
    return render_json({"at": stored["at"], "row": _ROW_NAMES[type(row)], **stored})


def _decode_inbox_row(line: bytes) -> InboxRow:
    stored = parse_json(line)
    if not isinstance(stored, dict):
        raise Wrong("is not an object")
    kind = _INBOX.get(str(stored.get("row")))
    if kind is None:
        raise Wrong("is not one that is known" if "row" in stored else "is missing", "row")
    row: object = ROWS.read(kind, stored)
    if not isinstance(row, _AcceptedInput):
        return cast(InboxRow, row)
    accepted = row.message or row.command or row.program or row.job
    if accepted is None:
        raise Malformed("neither a message nor a command was accepted")
    return Accepted(row.at, accepted)


INBOX_ROWS = LineCodec(_encode_inbox_row, _decode_inbox_row)
