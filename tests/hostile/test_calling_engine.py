"""The engine of the hostile tests harms nothing outside its home, even if no gate refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.hostile.calling_engine import CallingEngine
from tests.hostile.canary_home import SPOILED, new_canary_home

from ollim_bot.kernel.values.ports import Prompt, SessionSpec, Toolset
from ollim_bot.offline.server import CallTool, ModelRequest, Reply, Say

pytestmark = pytest.mark.real_process

CALLS = [
    CallTool("Read", {"file_path": "{path}"}),
    CallTool("Write", {"file_path": "{path}", "content": SPOILED}),
    CallTool("Write", {"file_path": "../../elsewhere/new.md", "content": SPOILED}),
    CallTool("Write", {"file_path": "notes/away/new.md", "content": SPOILED}),
    CallTool("Edit", {"file_path": "{path}", "old_string": "mine", "new_string": SPOILED}),
    CallTool("NotebookEdit", {"notebook_path": "{path}", "new_source": SPOILED}),
    CallTool("Glob", {"pattern": "../../elsewhere/*"}),
    CallTool("Grep", {"pattern": ".", "path": "../../elsewhere"}),
    CallTool("Bash", {"command": "cp lists/food.md {path}"}),
    CallTool("Bash", {"command": "dd if=lists/food.md of={path}"}),
    CallTool("Bash", {"command": "rm notes/away/file.md"}),
    CallTool("Bash", {"command": 'python3 -c \'open("{path}", "w")\''}),
    CallTool("WebFetch", {"url": "http://127.0.0.1/", "prompt": "x"}),
]


@pytest.mark.parametrize(
    "call", CALLS, ids=lambda call: f"{call.name} {[*call.arguments.values()]}"
)
async def test_a_call_outside_its_home_touches_nothing_and_is_a_breach(
    tmp_path: Path, call: CallTool
) -> None:
    home, file = new_canary_home(tmp_path / "home"), tmp_path / "elsewhere" / "file.md"
    file.parent.mkdir()
    file.write_text("mine")
    (home.data / "notes" / "away").symlink_to(file.parent)
    given = {
        name: str(value).replace("{path}", str(file)) for name, value in call.arguments.items()
    }
    replies = iter([Reply((CallTool(call.name, given),)), Reply((Say("Done."),))])
    asked: list[ModelRequest] = []

    class Model:
        def reply(self, request: ModelRequest) -> Reply:
            asked.append(request)
            return next(replies)

    engine = CallingEngine(Model(), {"HOME": str(home.home)}, home)
    async with engine.open(SessionSpec("", home.data), Toolset()) as session:
        assert [event async for event in session.turn(Prompt("go"))]
    (result,) = asked[-1].tool_results
    assert [*home.leaks_in(result.text)] == ["what is outside the home of the test"]
    assert [path.name for path in file.parent.iterdir()] == ["file.md"]
    assert file.read_text() == "mine"
