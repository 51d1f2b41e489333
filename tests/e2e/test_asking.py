"""The bot asks before it does what nothing allows, and shows the jobs that it writes."""

from __future__ import annotations

import json

import pytest
from tests.e2e.conftest import Scene

from ollim_bot.offline.messages import CallTool, ModelRequest, Reply, Say

ROUTINE = """---
id: plan
cron: "0 9 * * *"
description: Plan the day
---
What is the one thing today?
"""


def has_result(request: ModelRequest) -> bool:
    return bool(request.tool_results)


async def _asked_to_write(scene: Scene, name: str, text: str) -> None:
    path = str(scene.bot.data / name)
    scene.model.then(Reply((CallTool("Write", {"file_path": path, "content": text}),)))
    await scene.bot.say("write it down")


async def test_a_file_is_written_when_the_owner_allows_it(in_process: Scene) -> None:
    await in_process.bot.command("/permissions default")
    await _asked_to_write(in_process, "notes.txt", "milk\n")
    await in_process.bot.title("Allow Write?")
    assert not (in_process.bot.data / "notes.txt").exists()
    await in_process.bot.press("✅ Allow once")
    await in_process.bot.answer(1)
    assert (in_process.bot.data / "notes.txt").read_text() == "milk\n"


async def test_nothing_is_written_when_the_owner_refuses(in_process: Scene) -> None:
    await in_process.bot.command("/permissions default")
    await _asked_to_write(in_process, "notes.txt", "milk\n")
    await in_process.bot.title("Allow Write?")
    await in_process.bot.press("❌ Refuse")
    await in_process.bot.answer(1)
    assert not (in_process.bot.data / "notes.txt").exists()
    (result,) = in_process.model.requests[-1].tool_results
    assert result.is_error


async def test_a_new_routine_is_shown_with_its_moments_and_can_be_undone(in_process: Scene) -> None:
    await _asked_to_write(in_process, "routines/plan.md", ROUTINE)
    await in_process.bot.title("Routine added: Plan the day")
    await in_process.bot.answer(1)
    assert (in_process.bot.data / "routines" / "plan.md").exists()
    answer = await in_process.bot.press("Undo")
    assert not answer["is_error"], answer
    assert not (in_process.bot.data / "routines" / "plan.md").exists()


async def test_a_wrong_routine_is_refused_with_the_reason(in_process: Scene) -> None:
    await _asked_to_write(in_process, "routines/plan.md", ROUTINE.replace("0 9", "0 99"))
    in_process.model.when(has_result, Reply((Say("I will mend it."),)))
    assert await in_process.bot.answer(1) == "I will mend it."
    (result,) = in_process.model.requests[-1].tool_results
    assert "routines/plan.md:3" in result.text
    assert not (in_process.bot.data / "routines" / "plan.md").exists()


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
