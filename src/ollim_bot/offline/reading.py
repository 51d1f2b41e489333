"""Reads the body of a request into a `ModelRequest`, or says what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ollim_bot.offline.messages import Message, ModelRequest, as_blocks


class BadRequest(Exception):
    pass


def read_request(body: bytes) -> ModelRequest:
    """Raises `BadRequest` with the sentence that the client is told."""
    fields = _object(body)
    return ModelRequest(
        model=_text(fields, "model"),
        messages=_messages(fields.get("messages")),
        system="\n".join(str(block.get("text", "")) for block in as_blocks(fields.get("system"))),
        tools=_tool_names(fields.get("tools", [])),
        stream=fields.get("stream") is True,
        max_tokens=_count(fields, "max_tokens"),
        body=fields,
    )


def _object(body: bytes) -> Mapping[str, object]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as wrong:
        raise BadRequest("The request body is not valid JSON") from wrong
    if not isinstance(fields, dict):
        raise BadRequest("The request body is not an object")
    return fields


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise BadRequest(f"{name}: a text is required")
    return value


def _count(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadRequest(f"{name}: a whole number is required")
    return value


def _messages(value: object) -> tuple[Message, ...]:
    if not isinstance(value, list) or not value:
        raise BadRequest("messages: at least one message is required")
    return tuple(_message(number, entry) for number, entry in enumerate(value))


def _message(number: int, entry: object) -> Message:
    if not isinstance(entry, dict) or entry.get("role") not in ("user", "assistant", "system"):
        raise BadRequest(f"messages.{number}: a role, user or assistant, is required")
    content = entry.get("content")
    if not isinstance(content, str | list):
        raise BadRequest(f"messages.{number}.content: a text or a list of blocks is required")
    return Message(entry["role"], as_blocks(content))


def _tool_names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise BadRequest("tools: a list is required")
    return tuple(str(tool.get("name", "")) for tool in value if isinstance(tool, dict))
