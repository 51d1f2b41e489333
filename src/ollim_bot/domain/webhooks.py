"""Requests to webhooks: who sent them, whether they are new, and the data that is kept."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ollim_bot.domain.jobs import WebhookSpec
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.text import shortened
from ollim_bot.domain.webhook_schema import pointer_parts

LARGEST_BODY = 1024 * 1024
LARGEST_FIELDS = 10 * 1024
# For so long the same call is known again.
KEPT_FOR = timedelta(days=7)
_LARGEST_NUMBER = 2**63
_LONGEST_PROBLEM = 200


@dataclass(frozen=True, slots=True)
class WebhookCall:
    """A request that may be accepted. `key` is the same for the same call, and for no other.

    `name` stands in the occurrence's id; `token`, which is new for each request, makes the id
    unique where the name is used up.
    """

    hook: str
    title: str
    key: str
    name: str
    token: str
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The occurrence of a call; `is_new` is False for the same call again."""

    occurrence: Occurrence
    is_new: bool


@dataclass(frozen=True, slots=True)
class AcceptedCall:
    """An occurrence and the data that its run is given. The data is untrusted."""

    occurrence: Occurrence
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
        return {name: _mended(value) for name, value in data.items()}
    found = ((name, _at(data, pointer_parts(pointer))) for name, pointer in hook.pick.items())
    return {name: _mended(value) for name, value in found if value is not _ABSENT}


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


def _mended(value: Any) -> object:
    """The value without halves of surrogate pairs, which no text can be written with."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_mended(each) for each in value]
        case dict():
            return {str(_mended(name)): _mended(each) for name, each in value.items()}
    return value


def size_problem(fields: Mapping[str, object]) -> str | None:
    size = len(json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode())
    if size <= LARGEST_FIELDS:
        return None
    return f"/: has {size} bytes; at most {LARGEST_FIELDS} are allowed"


def number_problems(value: object, path: tuple[str | int, ...] = ()) -> Iterator[str]:
    """A problem for each number that is too large to compute with."""
    match value:
        case bool() | str() | None:
            return
        case int() | float():
            if not math.isfinite(value) or abs(value) > _LARGEST_NUMBER:
                yield _line(path, "is too large a number")
        case list():
            for number, each in enumerate(value):
                yield from number_problems(each, (*path, number))
        case dict():
            for name, each in value.items():
                yield from number_problems(each, (*path, name))


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """A keyword of the schema that a value does not satisfy.

    `expected` is what the keyword says, `found` the value, `schema` the schema with the keyword,
    `message` the validator's own words.
    """

    path: tuple[str | int, ...]
    keyword: str
    expected: Any
    found: Any
    schema: Mapping[str, Any]
    message: str


def problem_lines(problem: SchemaProblem) -> list[str]:
    """The problem in words, each with the path of its value as a JSON pointer."""
    path, expected = problem.path, problem.expected
    match problem.keyword:
        case "required":
            missing = [name for name in expected if name not in problem.found]
            return [_line((*path, name), "is missing") for name in missing]
        case "additionalProperties" if expected is False:
            known = problem.schema.get("properties", {})
            others = [name for name in problem.found if name not in known]
            return [_line((*path, name), "is not one of the fields") for name in others]
        case "type":
            wanted = expected if isinstance(expected, str) else " or ".join(expected)
            return [_line(path, f"is not of the type {wanted}")]
        case "enum":
            choices = ", ".join(json.dumps(each, ensure_ascii=False) for each in expected)
            return [_line(path, f"is not one of {choices}")]
        case "maxLength":
            return [_line(path, f"is longer than {expected} characters")]
        case "anyOf" | "oneOf":
            return [_line(path, "does not fit any one of the accepted forms")]
    return [_line(path, problem.message)]


def _line(path: Sequence[str | int], words: str) -> str:
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in path)
    return shortened(f"/{'/'.join(steps)}: {words}", _LONGEST_PROBLEM)
