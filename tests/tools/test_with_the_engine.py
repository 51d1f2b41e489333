"""The real engine with the gate of a conversation: honest calls do what they should."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from tests.engine.scene import Scene, ask, scene
from tests.tools.house import OPEN, SECRET, House, furnished

from ollim_bot.offline.messages import CallTool, Reply, ToolResult
from ollim_bot.ports import Gate, Toolset
from ollim_bot.tools.gates import main_gate
from ollim_bot.tools.path_rules import PathPolicy

BUILTIN = ("Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep", "Bash", "Agent")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as made:
        yield made


@pytest.fixture
def house(stage: Scene) -> House:
    return furnished(stage.home)


async def results(stage: Scene, gate: Gate, calls: Sequence[CallTool]) -> list[ToolResult]:
    """What the model is told about each of its calls, in their order."""
    stage.model.then(Reply(tuple(calls)))
    tools = Toolset(builtin=BUILTIN, gate=gate)
    async with stage.session(tools, readable=(stage.home / "texts",)) as session:
        await ask(session, "go")
    messages = stage.model.requests[-1].messages
    made = [call["id"] for message in messages for call in message.of_type("tool_use")]
    told = {result.call_id: result for message in messages for result in message.tool_results}
    return [told[str(call_id)] for call_id in made]


async def test_notes_are_read_searched_and_written_and_our_commands_are_run(
    stage: Scene, house: House
) -> None:
    """Documents behind a link are read where that is meant."""
    *told, refused = await results(
        stage,
        main_gate(PathPolicy(house.data, (house.texts,))),
        [
            CallTool("Read", {"file_path": "note.md"}),
            CallTool("Read", {"file_path": str(house.data / "notes/plan.md")}),
            CallTool("Grep", {"pattern": OPEN, "output_mode": "content", "glob": "*.md"}),
            CallTool("Glob", {"pattern": "**/*.md"}),
            CallTool("Read", {"file_path": "spec.md"}),
            CallTool("Bash", {"command": "ollim-bot reminder list"}),
            CallTool("Write", {"file_path": "notes/new.md", "content": "new"}),
            CallTool("Edit", {"file_path": "note.md", "old_string": OPEN, "new_string": "mine"}),
            CallTool("Bash", {"command": "ollim-bot config list"}),
        ],
    )
    read, plan, grep, glob, linked, listed, _, _ = (result.text for result in told)
    assert [result.text for result in told if result.is_error] == []
    assert not [result for result in told if SECRET in result.text]
    assert f"{OPEN}: data/note.md" in read
    assert f"{OPEN}: data/notes/plan.md" in plan
    assert {"note.md", "notes/plan.md", "routines/daily.md"} <= {
        line.partition(":")[0] for line in grep.splitlines()
    }
    assert "routines/daily.md" in glob
    assert f"{OPEN}: texts/spec.md" in linked
    assert "No reminders." in listed
    assert (house.data / "notes/new.md").read_text() == "new"
    assert (house.data / "note.md").read_text() == "mine: data/note.md\n"
    assert refused.is_error
    assert "`Bash` is not allowed here" in refused.text
