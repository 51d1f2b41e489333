"""Arguments are checked against our own schemas, and never against those of a tool server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from mcp import Client
from mcp.types import TextContent

from ollim_bot.kernel.engine.bridge import in_process_servers
from ollim_bot.kernel.values.ports import Tool, ToolAnswer, Toolset

# Each of these refuses the text: after a short time here, after hours with a few more signs.
DOUBLED = {f"d{number}": {"anyOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(8)}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"text": {"pattern": "^(a+)+$"}}},
        {"properties": {"text": {"$ref": "http://127.0.0.1:9/schema.json"}}},
        {"properties": {"text": {"$ref": "#/$defs/d0"}}, "$defs": {**DOUBLED, "d8": False}},
    ],
    ids=["backtracking", "fetched", "doubled"],
)
async def test_arguments_go_to_the_server_unchecked(schema: Mapping[str, object]) -> None:
    given: list[Mapping[str, object]] = []

    async def run(arguments: Mapping[str, object]) -> ToolAnswer:
        given.append(arguments)
        return ToolAnswer("Found.")

    tool = Tool("find", "Finds.", {"type": "object", **schema}, run)
    servers = in_process_servers(Toolset({"notes": [tool]}))
    async with asyncio.timeout(10), Client(servers["notes"]["instance"]) as client:
        (listed,) = (await client.list_tools()).tools
        assert listed.input_schema == {"properties": {}, "type": "object", **schema}
        text = "a" * 18 + "b"
        result = await client.call_tool("find", {"text": text})
        assert result.content == [TextContent(type="text", text="Found.")]
        assert given == [{"text": text}]
        assert (await client.call_tool("lose", {})).is_error


async def test_arguments_that_do_not_fit_never_reach_a_tool_of_ours() -> None:
    async def run(_: Mapping[str, object]) -> ToolAnswer:
        raise AssertionError("it was called")

    schema = {"type": "object", "properties": {"message": {"type": "string"}}}
    servers = in_process_servers(Toolset({"discord": [Tool("ping", "Pings.", schema, run)]}))
    async with asyncio.timeout(10), Client(servers["discord"]["instance"]) as client:
        result = await client.call_tool("ping", {"message": 7})
        assert result.is_error
        assert "validation" in str(result.content)
