"""Single values of the state as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NoReturn, cast

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.store.codecs.message_codec import LAYOUTS
from ollim_bot.kernel.store.codecs.plain import (
    Form,
    JsonFormat,
    Layout,
    ValueCodec,
    Wrong,
    lines_of,
    whole,
)
from ollim_bot.kernel.store.file_store import (
    FORMAT,
    Malformed,
    parse_json,
    render_json,
    versioned,
    versioned_list,
)
from ollim_bot.kernel.values.cards import ButtonPrompt, ButtonPrompts
from ollim_bot.kernel.values.digest import HeldMessage, HeldMessages
from ollim_bot.kernel.values.forks import Fork, ForkMessage
from ollim_bot.kernel.values.pings import LARGEST_LIMIT, PingBudget
from ollim_bot.kernel.values.sessions import SessionEvent
from ollim_bot.kernel.values.surface_state import KnownBrowser, KnownBrowsers
from ollim_bot.kernel.values.updates import PendingUpdate, PendingUpdates, omission_notice

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
            full=True, stored_as={"idle_limit": "idle_seconds"}, forms={"idle_limit": _seconds()}
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


def _unused() -> NoReturn:
    raise AssertionError("the budget takes the moment of its transaction")


def ping_budget_codec(now: Callable[[], datetime]) -> ValueCodec[PingBudget]:
    """A missing file is a full budget, as of `now`."""
    return ValueCodec(
        lambda: PingBudget.full(now()), _budget, lambda budget: _stored_object(budget, 1)
    )


PING_BUDGET = ping_budget_codec(_unused)

SESSION_EVENTS = lines_of(SessionEvent, JsonFormat({SessionEvent: Layout(full=True)}))

_HELD = JsonFormat(
    {**LAYOUTS, HeldMessage: Layout(first=("message", "charge"), needed=("charge",))}
)
HELD_MESSAGES = ValueCodec(
    HeldMessages,
    lambda raw: HeldMessages(_HELD.read_all(HeldMessage, versioned_list(parse_json(raw)))),
    lambda held: render_json([*map(_HELD.write, held.waiting)]) if held.waiting else None,
)
