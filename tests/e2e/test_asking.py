"""The bot asks before it does what nothing allows, and shows the jobs that it writes."""

from __future__ import annotations

import json

import pytest
from tests.e2e.conftest import Scene

from ollim_bot.offline.server import CallTool, ModelRequest, Reply, Say


def has_result(request: ModelRequest) -> bool:
    return bool(request.tool_results)


async def _asked_to_write(scene: Scene, name: str, text: str) -> None:
    path = str(scene.bot.data / name)
    scene.model.then(Reply((CallTool("Write", {"file_path": path, "content": text}),)))
    await scene.bot.say("write it down")


@pytest.mark.parametrize("mode", ["acceptEdits", "bypassPermissions", "default"])
async def test_code_of_a_tool_server_is_written_in_no_mode(in_process: Scene, mode: str) -> None:
    bot = in_process.bot
    (bot.data / "tools").mkdir()
    (bot.data / "tools" / "server.py").write_text("import json\n")
    entry = {"command": "python", "args": ["tools/server.py"]}
    (bot.data / "mcp.json").write_text(json.dumps({"mcpServers": {"notes": entry}}))
    await bot.title("Tool server added: notes")
    await bot.command(f"/permissions {mode}")
    await _asked_to_write(in_process, "tools/json.py", "print('code')\n")
    in_process.model.when(has_result, Reply((Say("I will not."),)))
    assert await bot.answer(1) == "I will not."
    (result,) = in_process.model.requests[-1].tool_results
    assert "A tool server of the owner works with this place" in result.text
    assert not (bot.data / "tools" / "json.py").exists()
