"""Calls of webhooks: which events count, the data that is kept, and their acceptance."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ollim_bot.domain.jobs import JobKind, WebhookSpec
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.webhook_schema import pointer_parts

LARGEST_BODY = 1024 * 1024
# For so long the same call is known again.
KEPT_FOR = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class WebhookCall:
    """A call that may be accepted. `key` is the same for the same call, and for no other.

    `name` stands in the occurrence's id; `token`, which is new for each request, makes the id
    unique where the name is used up.
    """

    hook: str
    title: str
    key: str
    name: str
    token: str
    fields: Mapping[str, object]
    kind: JobKind = JobKind.WEBHOOK


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The occurrence of a call; `is_new` is False for the same call again."""

    occurrence: Occurrence
    is_new: bool


@dataclass(frozen=True, slots=True)
class AcceptedCall:
    """When a call came, and the data that its run is given. The data is untrusted."""

    occurrence: Occurrence
    at: datetime
    fields: Mapping[str, object]


def read_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object that the body is; None if it is not one."""
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def is_wanted(hook: WebhookSpec, event: str, data: Mapping[str, object]) -> bool:
    """Whether `on` of the hook names the event of the request, or names none at all.

    `event` is the header `X-GitHub-Event`, or empty.
    """
    return not hook.on or not set(hook.on).isdisjoint(_event_names(event, data))


def _event_names(event: str, data: Mapping[str, object]) -> Iterator[str]:
    """`issues`, `opened` and `issues.opened` for GitHub; the type of an event of Stripe."""
    kind, action = data.get("type"), data.get("action")
    if event:
        yield event
    if isinstance(kind, str):
        yield kind
    if isinstance(action, str):
        yield action
        if event:
            yield f"{event}.{action}"


def picked(hook: WebhookSpec, data: Mapping[str, object]) -> dict[str, object]:
    """The fields of the request that are kept; a picked value that is not there has no field."""
    if not hook.pick:
        return dict(data)
    found = ((name, _at(data, pointer_parts(pointer))) for name, pointer in hook.pick.items())
    return {name: value for name, value in found if value is not _ABSENT}


_ABSENT = object()


def _at(value: Any, steps: Sequence[str]) -> object:
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and re.fullmatch(r"0|[1-9][0-9]{0,6}", step, re.ASCII):
            if int(step) >= len(value):
                return _ABSENT
            value = value[int(step)]
        else:
            return _ABSENT
    return value


def mended(fields: Mapping[str, object]) -> dict[str, object]:
    """The fields without halves of surrogate pairs, which no text can be written with."""
    return {_mended_text(name): _mended(value) for name, value in fields.items()}


def _mended(value: Any) -> object:
    match value:
        case str():
            return _mended_text(value)
        case list():
            return [_mended(each) for each in value]
        case dict():
            return mended(value)
    return value


def _mended_text(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
