"""Reduces a message of a tool server to what the bot uses of it.

A long message is reduced by this file as a program: its input is the message, its output the
reduced one. So it imports only the standard library, and the bot parses nothing long.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST_RESULT = 20_000
LONGEST_DESCRIPTION = 2000
LONGEST_SCHEMA = 20_000
# All definitions of a server together, in characters.
LONGEST_LISTING = 200_000
MOST_TOOLS = 100
# The key under which the reasons stand why tools were left out, by their names.
LEFT_OUT = "leftOut"

# What a server says a tool does; nothing else of its annotations is used.
_HINTS = ("readOnlyHint", "openWorldHint")
_DEEPEST_SCHEMA = 50
_LONGEST_NAME = 64
_MOST_LEFT_OUT = 20
# Of any other field, such as the version of a server.
_LONGEST_FIELD = 4000
_MOST_FIELDS = 20
_SECONDS = 10
_MEMORY = 2 * 1024**3
_NICENESS = 10


def reduce_message(raw: bytes) -> dict[str, Any] | None:
    """The reduced message; None if `raw` is no message of the protocol."""
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return None
    kept: dict[str, Any] = {"jsonrpc": "2.0"}
    if "id" in message:
        if not isinstance(message["id"], str | int) or len(str(message["id"])) > _LONGEST_NAME:
            return None
        kept["id"] = message["id"]
    if "method" in message:
        # The server may ask for nothing that takes parameters.
        return {**kept, "method": str(message["method"])[:_LONGEST_NAME]}
    if isinstance(message.get("error"), dict):
        error = message["error"]
        text = cut_text(str(error.get("message", "")), LONGEST_RESULT)
        return {**kept, "error": {**_small_fields(error), "message": text}}
    if isinstance(message.get("result"), dict):
        return {**kept, "result": _result(message["result"])}
    return None


def _result(result: Mapping[str, Any]) -> dict[str, Any]:
    kept = _small_fields(result, besides=("tools", "content", "structuredContent"))
    if isinstance(result.get("content"), list):
        structured = result.get("structuredContent")
        parts = [*_texts(result["content"])]
        if not parts and structured is not None:
            parts = [_dumped(structured) or ""]
        text = "\n".join(parts)
        kept["content"] = [{"type": "text", "text": cut_text(text, LONGEST_RESULT)}]
    if isinstance(result.get("tools"), list):
        kept["tools"], kept[LEFT_OUT] = _tools(result["tools"])
    return kept


def _small_fields(fields: Mapping[str, Any], besides: tuple[str, ...] = ()) -> dict[str, Any]:
    """The first fields that are short; the protocol has few, and all of them are."""
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        if len(kept) == _MOST_FIELDS:
            break
        if name not in besides and len(name) <= _LONGEST_NAME and _length(value) <= _LONGEST_FIELD:
            kept[name] = value
    return kept


def _texts(blocks: list[Any]) -> Iterator[str]:
    for block in blocks:
        if not isinstance(block, dict):
            continue
        kind, inner = block.get("type"), block.get("resource")
        source = inner if kind == "resource" and isinstance(inner, dict) else block
        text = source.get("text") if kind in ("text", "resource") else None
        yield text if isinstance(text, str) else f"[{str(kind)[:_LONGEST_NAME]} left out]"


def cut_text(text: str, longest: int) -> str:
    more = len(text) - longest
    noun = "character" if more == 1 else "characters"
    return text if more <= 0 else f"{text[:longest]}\n[cut: {more} further {noun}]"


def _tools(tools: list[Any]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    kept: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    length = 0
    for tool in tools:
        if not isinstance(tool, dict):
            continue
        name = str(tool.get("name", ""))[: _LONGEST_NAME + 1]
        schema = tool.get("inputSchema")
        described = str(tool.get("description") or "")[: LONGEST_DESCRIPTION + 1]
        why, room = _problem(schema), len(described) + _length(schema)
        if why is None and (len(kept) == MOST_TOOLS or length + room > LONGEST_LISTING):
            why = "more tools before it than one server may have"
        if why is None:
            length += room
            said = tool.get("annotations")
            found = said if isinstance(said, dict) else {}
            flags = {name: found[name] for name in _HINTS if isinstance(found.get(name), bool)}
            hints = {"annotations": flags} if flags else {}
            kept.append({"name": name, "description": described, "inputSchema": schema, **hints})
        elif len(left_out) < _MOST_LEFT_OUT:
            left_out[name] = why
    return kept, left_out


def _problem(schema: object) -> str | None:
    """Why the tool is left out, to complete “it has”."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "a schema that is not that of an object"
    if _is_deep(schema):
        return f"a schema of more than {_DEEPEST_SCHEMA} levels"
    if _length(schema) > LONGEST_SCHEMA:
        return f"a schema of more than {LONGEST_SCHEMA} characters"
    return None


def _is_deep(value: object) -> bool:
    level: list[object] = [value]
    for _ in range(_DEEPEST_SCHEMA):
        level = [part for each in level for part in _parts(each)]
        if not level:
            return False
    return True


def _parts(value: object) -> list[object]:
    if isinstance(value, dict):
        return [*value.values()]
    return value if isinstance(value, list) else []


def _length(value: object) -> int:
    dumped = _dumped(value)
    return sys.maxsize if dumped is None else len(dumped)


def _dumped(value: object) -> str | None:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return None


if __name__ == "__main__":
    import os
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    os.nice(_NICENESS)
    sys.stdout.write(json.dumps(reduce_message(sys.stdin.buffer.read())))
