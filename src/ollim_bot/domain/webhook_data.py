"""Where the values of a webhook's call may stand, and which of them are free text.

A value is closed if the owner's schema leaves a stranger no words to choose: a fixed list, a
number or a boolean. Every other value is free, and never becomes part of a task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from ollim_bot.domain.text import literal, one_line

Data = Mapping[str, object]
Schema = Mapping[str, Any]

NOT_GIVEN = "(not given)"
_PLACE = re.compile(r"\{\{\s*([^{}\n]+?)\s*\}\}")
_WORDLESS = frozenset({"integer", "number", "boolean", "null"})
# As long as all fields of a call together.
_LONGEST = 10_000


def has_free_text(schema: Schema) -> bool:
    """Whether a call that the schema accepts may carry words of the sender's choice."""
    return not _is_closed({"type": "object", "additionalProperties": False, **schema})


def free_values(schema: Schema, data: Data) -> dict[str, object]:
    """The fields of a call with words of the sender's choice.

    The schema may have changed since it accepted the call, so each value is compared with it.
    """
    known = _properties(schema)
    return {
        name: value
        for name, value in data.items()
        if not (_is_closed(known.get(name)) and _is_of_owner(known.get(name), value))
        and _has_words(value)
    }


def named_fields(schema: Schema, names: Mapping[str, object]) -> str:
    """The names as a list; those that the sender chose are only counted in."""
    known = [f"`{name}`" for name in names if name in _properties(schema)]
    others = [] if len(known) == len(names) else ["fields that the file does not name"]
    return ", ".join([*known, *others])


def unknown_places(body: str, schema: Schema) -> list[str]:
    """The `{{field}}` places in a body whose field the schema does not have."""
    known = _properties(schema)
    return list(dict.fromkeys(name for name in _PLACE.findall(body) if name not in known))


def task_text(body: str, schema: Schema, data: Data) -> str:
    """The body with closed values in their places; any other place refers to the fenced data."""

    known = _properties(schema)

    def said(place: re.Match[str]) -> str:
        name = place[1]
        if name not in known:
            return f"(`{name}`, which is no field of this webhook)"
        field = known[name]
        is_free = name in data and not _is_of_owner(field, data[name])
        is_whole = isinstance(field, Mapping) and {"array", "object"} & _types(field)
        if is_free or is_whole or not _is_closed(field):
            return f"(see `{name}` in the data above)"
        return _as_text(data[name]) if name in data else NOT_GIVEN

    return _PLACE.sub(said, body)


def plain_text(body: str, data: Data) -> str:
    """The body with all values in their places, each on one line and without markup."""

    def said(place: re.Match[str]) -> str:
        if place[1] not in data:
            return NOT_GIVEN
        return literal(one_line(_as_text(data[place[1]]), _LONGEST)) or NOT_GIVEN

    return _PLACE.sub(said, body).strip()


def has_words_of_sender(body: str, schema: Schema, data: Data) -> bool:
    """Whether a place of the body is filled with words of the sender's choice."""
    return not free_values(schema, data).keys().isdisjoint(_PLACE.findall(body))


def data_text(data: Data) -> str:
    """The data as JSON, one field on a line."""
    lines = (f"  {_json(name)}: {_json(value)}" for name, value in data.items())
    return "\n".join(["{", ",\n".join(lines), "}"]) if data else "{}"


def _properties(schema: Schema) -> Mapping[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _is_closed(schema: object) -> bool:
    """Whether each value that fits is one that the owner wrote down, or has no words.

    All keywords of a schema hold at once, so one that closes it is enough. What this does not
    understand is not closed.
    """
    if not isinstance(schema, Mapping):
        return False
    if "enum" in schema or "const" in schema:
        return True
    types = _types(schema)
    if not types:
        return False
    is_closed = types <= _WORDLESS | {"array", "object"}
    if "array" in types:
        is_closed = is_closed and all(map(_is_closed, _items(schema)))
    if "object" in types:
        # Other names would be words of the sender too.
        is_named = schema.get("additionalProperties") is False and "patternProperties" not in schema
        is_closed = is_closed and is_named and all(map(_is_closed, _properties(schema).values()))
    return is_closed


def _is_of_owner(schema: object, value: object) -> bool:
    """Whether all words in a value are in the schema."""
    if not _has_words(value):
        return True
    match schema, value:
        case {"enum": list() as listed}, _:
            return value in listed
        case {"const": named}, _:
            return bool(value == named)
        case Mapping(), list():
            rest, *first = _items(schema)
            each = zip_longest(first[: len(value)], value, fillvalue=rest)
            return all(_is_of_owner(one, item) for one, item in each)
        case Mapping(), Mapping():
            known = _properties(schema)
            return all(
                name in known and _is_of_owner(known[name], item) for name, item in value.items()
            )
    return False


def _items(schema: Schema) -> list[object]:
    first = schema.get("prefixItems")
    return [schema.get("items"), *(first if isinstance(first, list) else [])]


def _types(schema: Schema) -> set[str]:
    found = schema.get("type")
    return {found} if isinstance(found, str) else set(found) if isinstance(found, list) else set()


def _has_words(value: object) -> bool:
    left = [value]
    while left:
        match left.pop():
            case str() as words if words:
                return True
            case Mapping() as fields:
                left += [*fields, *fields.values()]
            case list() as items:
                left += items
    return False


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
