"""The real engine, with its real command-line program, talks to our server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ResultMessage,
    create_sdk_mcp_server,
    tool,
)
from devtools.scripted_model import ScriptedModel

from ollim_bot.offline import texts
from ollim_bot.offline.rules import OfflineModel
from ollim_bot.offline.server import (
    CallTool,
    ChatModel,
    Fail,
    Failure,
    MessagesServer,
    ModelRequest,
    Reply,
    Think,
)

pytestmark = pytest.mark.real_engine


@tool("add", "Adds two numbers", {"a": int, "b": int})
async def add(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(arguments["a"] + arguments["b"])}]}


@asynccontextmanager
async def engine(model: ChatModel, home: Path) -> AsyncIterator[ClaudeSDKClient]:
    """Uses neither the account nor the settings of the person who runs the tests."""
    async with MessagesServer(model) as server:
        environment = {
            "HOME": str(home),
            "CLAUDE_CONFIG_DIR": str(home / "claude"),
            "ANTHROPIC_API_KEY": "any",
            "ANTHROPIC_AUTH_TOKEN": "",
            "CLAUDE_CODE_OAUTH_TOKEN": "",
            "ANTHROPIC_BASE_URL": server.url,
            "NO_PROXY": "127.0.0.1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
        }
        options = ClaudeAgentOptions(
            system_prompt="You help.",
            tools=[],
            mcp_servers={"numbers": create_sdk_mcp_server("numbers", tools=[add])},
            allowed_tools=["mcp__numbers__add"],
            setting_sources=[],
            cwd=home,
            env=environment,
        )
        async with asyncio.timeout(30), ClaudeSDKClient(options) as client:
            yield client


async def turn(client: ClaudeSDKClient, words: str) -> ResultMessage:
    await client.query(words)
    result = [message async for message in client.receive_response()][-1]
    assert isinstance(result, ResultMessage)
    return result


class SwitchingModel:
    """Passes requests to `model`, which a test can replace."""

    def __init__(self, first: ChatModel) -> None:
        self.model = first

    def reply(self, request: ModelRequest) -> Reply | Failure:
        return self.model.reply(request)


async def test_a_turn_a_call_a_compaction_and_a_failure_by_script_and_without_one(
    tmp_path: Path,
) -> None:
    scripted = ScriptedModel()
    model = SwitchingModel(scripted)
    async with engine(model, tmp_path) as client:
        await check_a_turn_a_call_of_a_tool_a_compaction_and_a_failure(client, scripted)
        model.model = OfflineModel()
        await check_that_the_offline_model_greets_and_survives_a_compaction(client)


async def check_a_turn_a_call_of_a_tool_a_compaction_and_a_failure(
    client: ClaudeSDKClient, model: ScriptedModel
) -> None:
    """The model recognises a compaction, and uses no step of the script for it."""
    model.answers("Hello 👋")
    model.then(Reply((Think("hm"), CallTool("mcp__numbers__add", {"a": 1, "b": 2}))))
    model.answers("three", "Still here").then(Fail(403, "permission_error", "no"))
    assert (await turn(client, "hi")).result == "Hello 👋"
    assert (await turn(client, "add")).result == "three"
    await turn(client, "/compact keep names")
    assert (await turn(client, "and now?")).result == "Still here"
    refused = await turn(client, "again")

    first, second, third, _, after, last = model.requests
    asked = [request.last_user_text for request in (first, second, third, after, last)]
    assert asked == ["hi", "add", "", "and now?", "again"]
    assert first.system.endswith("You help.")
    assert "mcp__numbers__add" in second.tools
    assert [result.text for result in third.tool_results] == ["3"]
    assert "A short talk." in str(after.body["messages"])
    assert (refused.is_error, refused.api_error_status) == (True, 403)
    assert last.stream


async def check_that_the_offline_model_greets_and_survives_a_compaction(
    client: ClaudeSDKClient,
) -> None:
    assert (await turn(client, "hello")).result == texts.GREETING
    compacted = await turn(client, "/compact")
    assert not compacted.is_error
    assert (await turn(client, "what can you do?")).result == texts.WHAT_I_CAN_DO
