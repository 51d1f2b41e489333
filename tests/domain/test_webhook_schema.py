"""The defaults of a webhook's schema."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ollim_bot.domain.webhooks import complete_schema

LONG, LONGEST, SHORT = "x" * 501, "x" * 2000, "x" * 500


def of(schema: object) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"type": "string"}, SHORT, LONG),
        ({"type": ["string", "null"]}, SHORT, LONG),
        ({"type": "string", "maxLength": 2000}, LONGEST, LONGEST + "x"),
        ({"type": "string", "maxLength": 3}, "xxx", "xxxx"),
        (True, {"b": [SHORT]}, {"b": [LONG]}),
        ({}, [{"b": SHORT}], [{"b": LONG}]),
        ({"minLength": 1}, SHORT, LONG),
        ({"type": "array"}, [[SHORT]], [[LONG]]),
        ({"type": "array", "items": {"type": "string"}}, [SHORT], [LONG]),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, [SHORT, SHORT], [LONG]),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, [SHORT], ["x", LONG]),
        ({"type": "object"}, {}, {"b": 1}),
        ({"properties": {"b": {"type": "string"}}}, {"b": SHORT}, {"b": LONG}),
        ({"properties": {"b": {"type": "string"}}}, {"b": ""}, {"c": ""}),
        ({"type": "object", "additionalProperties": True}, {"b": SHORT}, {"b": [LONG]}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"b": "x"}, {"b": LONG}),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, SHORT, LONG),
        ({"anyOf": [{"type": "string", "maxLength": 2000}, {"type": "null"}]}, LONGEST, 1),
        ({"oneOf": [{"type": "array", "items": {"type": "string"}}]}, [SHORT], [LONG]),
        ({"not": {"type": "string", "maxLength": 2}}, "xxx", LONG),
        ({"enum": [LONG, 1]}, LONG, SHORT),
        ({"type": "integer", "minimum": 0}, 5, -1),
    ],
)
def test_every_text_has_a_greatest_length_and_objects_are_closed(
    schema: object, right: object, wrong: object
) -> None:
    complete = complete_schema(of(schema))
    Draft202012Validator.check_schema(complete)
    validator = Draft202012Validator(complete)
    assert validator.is_valid({"a": right})
    assert not validator.is_valid({"a": wrong})
    assert not validator.is_valid({"a": right, "other": 1})
    assert not validator.is_valid([])
