"""Checks the data of a call against the schema of its webhook."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from ollim_bot.domain.jobs import WebhookSpec
from ollim_bot.domain.text import shortened
from ollim_bot.domain.webhook_schema import complete_schema

_LARGEST_FIELDS = 10 * 1024
_DEEPEST = 20
_LARGEST_NUMBER = 2**63
_MOST_PROBLEMS = 100
_LONGEST_PROBLEM = 200

_Path = tuple[str | int, ...]


def problems_of(hook: WebhookSpec, fields: Mapping[str, object]) -> list[str]:
    """Everything that is wrong with the picked fields; empty if they fit.

    Each problem begins with the path of its value, as a JSON pointer.
    """
    if _is_deeper(fields, _DEEPEST):
        return [_line((), f"is nested more than {_DEEPEST} deep")]
    written = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    size = len(written.encode("utf-8", "surrogatepass"))
    if size > _LARGEST_FIELDS:
        return [_line((), f"has {size} bytes; at most {_LARGEST_FIELDS} are allowed")]
    # The validator cannot compute with numbers that no float can hold.
    found = list(_large_numbers(fields, ()))
    if not found:
        errors = _validator(json.dumps(hook.fields)).iter_errors(fields)
        found = list(dict.fromkeys(line for error in errors for line in _lines(error)))
    more = len(found) - _MOST_PROBLEMS
    return found if more <= 0 else [*found[:_MOST_PROBLEMS], f"and {more} more"]


def _is_deeper(value: object, most: int) -> bool:
    """Whether lists and objects are nested deeper. The depth is no burden on the stack."""
    level: list[Any] = [value]
    for _ in range(most):
        parts = (each.values() if isinstance(each, dict) else each for each in _nested(level))
        level = [part for each in parts for part in each]
    return any(True for _ in _nested(level))


def _nested(values: Iterable[Any]) -> Iterator[Any]:
    return (each for each in values if isinstance(each, list | dict))


@lru_cache(maxsize=4096)
def _validator(fields: str) -> Draft202012Validator:
    """The validator of a schema, given as JSON text. Making one takes longer than using it."""
    return Draft202012Validator(complete_schema(json.loads(fields)))


def _large_numbers(value: object, path: _Path) -> Iterator[str]:
    match value:
        case bool() | str() | None:
            return
        case int() | float():
            if not math.isfinite(value) or abs(value) > _LARGEST_NUMBER:
                yield _line(path, "is too large a number")
        case list():
            for number, each in enumerate(value):
                yield from _large_numbers(each, (*path, number))
        case dict():
            for name, each in value.items():
                yield from _large_numbers(each, (*path, name))


def _lines(error: ValidationError) -> list[str]:
    """The problem in words; one line for each value that is missing or not expected."""
    path: _Path = tuple(error.absolute_path)
    expected: Any = error.validator_value
    found: Any = error.instance
    match error.validator:
        case "required":
            missing = [name for name in expected if name not in found]
            return [_line((*path, name), "is missing") for name in missing]
        case "additionalProperties" if expected is False:
            known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
            others = [name for name in found if name not in known]
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
    return [_line(path, error.message)]


def _line(path: Sequence[str | int], words: str) -> str:
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in path)
    return shortened(f"/{'/'.join(steps)}: {words}", _LONGEST_PROBLEM)
