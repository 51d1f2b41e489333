"""The data of a webhook's call: its schema, where its values may stand, and what is free text.

A value is closed if the owner's schema leaves a stranger no words to choose: a fixed list, a
number or a boolean. Every other value is free, and never becomes part of a task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any

from ollim_bot.kernel.base.text import literal, nearest, one_line

Data = Mapping[str, object]
Schema = Mapping[str, Any]

MOST_PROPERTIES = 20
LONGEST_TEXT = 500
# A larger schema is a mistake, and would take long to apply.
_MOST_PARTS = 500

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


_TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")
_ANYTHING = "anything"
_DEFINITIONS = "$defs"
# For some data these take so long that nothing else would be answered.
_SLOW = ("pattern", "patternProperties", "uniqueItems")
_REFERENCES = ("$ref", "$dynamicRef", "$defs", "definitions", "$id", "$anchor", "$dynamicAnchor")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_type(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(name in _TYPES for name in names)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


# The keywords without further schemas: whether a value is right, and what they take.
_CHECKS: Sequence[tuple[tuple[str, ...], Callable[[Any], bool], str]] = (
    (("type",), _is_type, f"one or a list of {', '.join(_TYPES)}"),
    (("enum",), lambda value: isinstance(value, list) and bool(value), "a list of values"),
    (("const", "default"), lambda _: True, "any value"),
    (("required",), _is_names, "a list of names"),
    (
        ("dependentRequired",),
        lambda value: isinstance(value, dict) and all(map(_is_names, value.values())),
        "a list of names for each name",
    ),
    (("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number, "a number"),
    (("multipleOf",), lambda value: _is_number(value) and value > 0, "a number above 0"),
    (
        (
            *("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"),
            *("minProperties", "maxProperties"),
        ),
        lambda value: _is_number(value) and isinstance(value, int) and value >= 0,
        "a whole number from 0 on",
    ),
    (
        ("format", "title", "description", "$comment", "$schema"),
        lambda value: isinstance(value, str),
        "text",
    ),
    (("examples",), lambda value: isinstance(value, list), "a list"),
    (
        ("deprecated", "readOnly", "writeOnly"),
        lambda value: isinstance(value, bool),
        "true or false",
    ),
)
_VALUES = {name: (is_right, takes) for names, is_right, takes in _CHECKS for name in names}
_ONE = ("additionalProperties", "items", "contains", "propertyNames", "not", "if", "then", "else")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_BY_NAME = ("properties", "dependentSchemas")


def schema_problems(fields: Mapping[str, object]) -> list[str]:
    """What is wrong with the schema of a webhook, each with its place; empty if it can be used.

    No regular expression and no reference is accepted: a stranger's text could make the one run
    without end, and the other could make the schema endless.
    """
    if fields.get("type", "object") != "object":
        return ["type: is object for the data of a webhook"]
    parts = [*islice(_problems_at(fields, ()), _MOST_PARTS + 1)]
    if len(parts) > _MOST_PARTS:
        return [f"is too large; at most {_MOST_PARTS} parts"]
    return [*filter(None, parts)] or [*_problems_of_properties(fields)]


def _problems_of_properties(fields: Mapping[str, Any]) -> Iterator[str]:
    properties = fields.get("properties", {})
    if len(properties) > MOST_PROPERTIES:
        yield f"properties: has {len(properties)}; at most {MOST_PROPERTIES} are allowed"
    if not fields.get("additionalProperties"):
        for name in fields.get("required", ()):
            if name not in properties:
                yield f"required: names {name}, which is not one of the properties"


def _problems_at(schema: object, path: tuple[str, ...]) -> Iterator[str]:
    """The problems of a schema and of those in it; an empty text for each part that is right."""
    yield ""
    if isinstance(schema, bool) and path:
        return
    if not isinstance(schema, dict):
        yield _schema_at(path, "is a schema such as {type: string}")
        return
    for keyword, value in schema.items():
        yield from _problems_of(keyword, value, (*path, keyword))


def _problems_of(keyword: str, value: object, path: tuple[str, ...]) -> Iterator[str]:
    if keyword in _VALUES:
        is_right, takes = _VALUES[keyword]
        yield "" if is_right(value) else _schema_at(path, f"takes {takes}")
    elif keyword in _ONE:
        yield from _problems_at(value, path)
    elif keyword in _LISTS:
        if not isinstance(value, list) or not value:
            yield _schema_at(path, "takes a list of schemas")
            return
        for number, each in enumerate(value):
            yield from _problems_at(each, (*path, str(number)))
    elif keyword in _BY_NAME:
        if not isinstance(value, dict):
            yield _schema_at(path, "takes a schema for each name")
            return
        for name, each in value.items():
            yield from _problems_at(each, (*path, name))
    elif keyword in _SLOW:
        why = "is not used here, since some data would take too long to compare"
        yield _schema_at(path, why)
    elif keyword in _REFERENCES:
        yield _schema_at(path, "is not used here; write the schema out where it is needed")
    else:
        near = nearest(keyword, (*_VALUES, *_ONE, *_LISTS, *_BY_NAME))
        hint = f"; did you mean {near}?" if near else ""
        yield _schema_at(path, f"is not known here{hint}")


def _schema_at(path: Sequence[str], reason: str) -> str:
    return f"{'.'.join(path)}: {reason}" if path else reason


def complete_schema(fields: Mapping[str, object]) -> dict[str, object]:
    """The schema that data is checked against: `fields` with the defaults of a webhook.

    Every string has a greatest length, at any depth, and objects accept only named properties
    unless they say otherwise.
    """
    anything = {"$ref": f"#/{_DEFINITIONS}/{_ANYTHING}"}
    of_any_kind = {"maxLength": LONGEST_TEXT, "items": anything, "additionalProperties": anything}
    whole = _completed({"type": "object", **fields})
    assert isinstance(whole, dict)
    return {**whole, _DEFINITIONS: {_ANYTHING: of_any_kind}}


def _completed(schema: Any) -> Any:
    """The schema of one value with its defaults; `schema` has no problems."""
    anything = {"$ref": f"#/{_DEFINITIONS}/{_ANYTHING}"}
    if isinstance(schema, bool):
        return anything if schema else False
    if "enum" in schema or "const" in schema:
        return schema
    made = dict(schema)
    alternatives = [name for name in ("anyOf", "oneOf") if name in schema]
    if alternatives and "type" not in schema:
        # Each alternative has its own limits, which a default here would narrow.
        for name in alternatives:
            made[name] = [_completed(each) for each in schema[name]]
        return made
    found = schema.get("type", _TYPES)
    types = [found] if isinstance(found, str) else found
    if "string" in types:
        made.setdefault("maxLength", LONGEST_TEXT)
    if "array" in types:
        made["items"] = _completed(schema.get("items", True))
        if "prefixItems" in schema:
            made["prefixItems"] = [_completed(each) for each in schema["prefixItems"]]
    if "object" in types:
        is_open_by_default = "type" not in schema and "properties" not in schema
        made["additionalProperties"] = _completed(
            schema.get("additionalProperties", is_open_by_default)
        )
        if "properties" in schema:
            properties = schema["properties"].items()
            made["properties"] = {name: _completed(each) for name, each in properties}
    return made


def pointer_parts(pointer: str) -> tuple[str, ...]:
    """The steps of a JSON pointer such as `/issue/title`; raises `ValueError` for another text."""
    steps = pointer.split("/")
    is_escaped_well = "~" not in pointer.replace("~0", "").replace("~1", "")
    if steps[0] or len(steps) == 1 or not is_escaped_well:
        raise ValueError(f"{pointer!r} is not a JSON pointer such as /issue/title")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps[1:])
