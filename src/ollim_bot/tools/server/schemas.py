"""The forms of arguments, as JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Schema = dict[str, object]


def arguments(required: Sequence[str] = (), **properties: Schema) -> Schema:
    """All arguments of a tool; no others are let in."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def text(about: str) -> Schema:
    return {"type": "string", "description": about}


def choice(about: str, values: Sequence[str]) -> Schema:
    return {"type": "string", "description": about, "enum": list(values)}


def flag(about: str) -> Schema:
    return {"type": "boolean", "description": about}


def whole(about: str, low: int) -> Schema:
    return {"type": "integer", "description": about, "minimum": low}


def whole_of(value: object) -> int | None:
    """The value given for a `whole`; in JSON Schema, 3.0 is a whole number too."""
    return int(value) if isinstance(value, int | float) else None


def number(about: str) -> Schema:
    return {"type": "number", "description": about, "exclusiveMinimum": 0}


def listed(about: str, item: Mapping[str, object]) -> Schema:
    return {"type": "array", "description": about, "items": dict(item)}
