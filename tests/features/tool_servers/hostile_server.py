"""A hostile tool server: `python hostile_server.py MANNER`. It begins once it was asked its tools.

The manners `schema`, `tools`, `deep`, `costly`, `result` and `honest` answer; the others flood.
"""

from __future__ import annotations

import json
import sys
from itertools import repeat
from typing import Any

_OBJECT = {"type": "object", "properties": {}}
# Close to the longest message that is read, and a tenth of it.
_DENSE = "[" + "[]," * 2_200_000 + "[]]"
_LESS_DENSE = "[" + "[]," * 220_000 + "[]]"
_CHANGED = '{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}'
_LOG = (
    '{"jsonrpc": "2.0", "method": "notifications/message", '
    '"params": {"level": "error", "data": "x"}}'
)
FLOODS = {"words": "hello\n", "changed": f"{_CHANGED}\n", "log": f"{_LOG}\n", "endless": "x"}


def _tool(name: str, schema: str) -> str:
    return f'{{"name": "{name}", "description": "Finds.", "inputSchema": {schema}}}'


def listing(manner: str) -> str:
    tools = [_tool("find", json.dumps(_OBJECT))]
    if manner == "schema":
        dense = '{"type": "object", "properties": {"x": {"enum": %s}}}'
        tools.append(_tool("big", dense % _DENSE))
    if manner == "tools":
        tools += [_tool(f"t{number}", json.dumps(_OBJECT)) for number in range(8_000)]
    if manner == "deep":
        tools.append(_tool("deep", '{"type": "object", "not":' * 400 + "{}" + "}" * 400))
    if manner == "costly":
        tools += [_tool(f"t{number}", _costly(number)) for number in range(20)]
    return f'{{"tools": [{", ".join(tools)}]}}'


def _costly(number: int) -> str:
    properties = {f"p{number}-{each}": {"type": "string"} for each in range(500)}
    return json.dumps({"type": "object", "properties": properties})


def answer(manner: str, asked: dict[str, Any]) -> str | None:
    match asked["method"]:
        case "initialize":
            result = {
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "hostile", "version": "1"},
            }
            return json.dumps(result)
        case "tools/list":
            return listing(manner)
        case "tools/call":
            text = json.dumps([{"type": "text", "text": "Found."}])
            more = f', "structuredContent": {{"x": {_LESS_DENSE}}}' if manner == "result" else ""
            return f'{{"content": {text}{more}}}'
        case _:
            return None


def _flood(text: str) -> None:
    block = text * (65536 // len(text))
    for each in repeat(block):
        sys.stdout.write(each)


def main(manner: str) -> None:
    is_listed = False
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked or "method" not in asked:
            continue
        result = answer(manner, asked)
        error = '"error": {"code": -32601, "message": "no"}'
        told = f'"result": {result}' if result else error
        print(f'{{"jsonrpc": "2.0", "id": {json.dumps(asked["id"])}, {told}}}', flush=True)
        is_listed = is_listed or asked["method"] == "tools/list"
        if is_listed and manner in FLOODS:
            _flood(FLOODS[manner])
        if is_listed and manner == "stderr":
            for each in repeat("x\n" * 30_000):
                sys.stderr.write(each)


if __name__ == "__main__":
    main(sys.argv[1])
