"""The real engine edits a file as predicted, and no edit makes a wrong job."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.engine.scene import ChangingTools, Scene, ask, scene
from tests.tools.test_file_edits import APPLIED, UNCLEAR

from ollim_bot.domain.events import AgentEvent, ToolEnded, ToolRefused
from ollim_bot.domain.permissions import Pattern
from ollim_bot.offline.server import CallTool, Reply
from ollim_bot.paths import DataPaths
from ollim_bot.ports import AgentSession, Gate, Refusal, ToolCall, Toolset
from ollim_bot.store.data_directory import prepare_data_directory
from ollim_bot.store.job_checker import JobFileChecker
from ollim_bot.tools.guards import JobValidator, UnclearEdit, text_after_edit
from ollim_bot.tools.registry import MAIN_TOOLS

pytestmark = pytest.mark.real_process

BUILTIN = ("Read", "Write", "Edit")
DAILY = '---\nid: daily\ncron: "0 9 * * *"\ndescription: “a”\n---\nPlan the day.\n'


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as made:
        yield made


@dataclass
class Agent:
    engine: Scene
    tools: ChangingTools
    session: AgentSession

    async def does(self, gate: Gate, calls: Sequence[CallTool]) -> list[AgentEvent]:
        self.tools.now = Toolset(builtin=BUILTIN, gate=gate)
        self.engine.model.then(Reply(tuple(calls)))
        return await ask(self.session, "go")


async def test_a_foretold_edit_stands_in_the_file_and_no_edit_makes_a_wrong_job(
    engine: Scene,
) -> None:
    tools = ChangingTools(Toolset(builtin=BUILTIN))
    async with engine.session(tools.toolset()) as session:
        agent = Agent(engine, tools, session)
        await check_that_a_foretold_edit_is_what_stands_in_the_file(agent)
        await check_that_a_hostile_model_makes_no_wrong_job_by_any_edit(agent)


async def check_that_a_foretold_edit_is_what_stands_in_the_file(agent: Agent) -> None:
    data, foretold = agent.engine.home / "data", dict[Path, str]()
    before = {name: case[0] for name, case in APPLIED.items()}
    before |= {name: case[0] for name, case in UNCLEAR.items()}
    edits = {name: case[1] for name, case in APPLIED.items()}
    edits |= {name: case[1] for name, case in UNCLEAR.items()}
    there = {name: text for name, text in before.items() if text is not None}
    for name, text in there.items():
        (data / f"{name}.md").write_text(text, newline="")

    async def gate(call: ToolCall) -> Refusal | None:
        path = Path(str(call.arguments["file_path"]))
        if call.tool == "Edit":
            try:
                foretold[path] = text_after_edit("x", before[path.stem], call.tool, call.arguments)
            except UnclearEdit as unclear:
                return Refusal(str(unclear))
        return None

    reads = [CallTool("Read", {"file_path": f"{name}.md"}) for name in there]
    writes = [CallTool("Edit", {"file_path": f"{name}.md", **edits[name]}) for name in edits]
    await agent.does(gate, [*reads, *writes])

    # The engine turns the text "true" into a flag before it asks the gate about the call.
    assert {path.stem for path in foretold} == {*APPLIED, "loose-flag"}
    for path, text in foretold.items():
        assert path.read_text().removeprefix("\ufeff") == text, path.stem
    for name in {*UNCLEAR, *there} - {path.stem for path in foretold}:
        assert (
            not (data / f"{name}.md").exists() or (data / f"{name}.md").read_text() == there[name]
        )


async def check_that_a_hostile_model_makes_no_wrong_job_by_any_edit(agent: Agent) -> None:
    paths = DataPaths(agent.engine.home / "data")
    prepare_data_directory(paths)
    (paths.routines / "daily.md").write_text(DAILY)
    (paths.root / "to-daily.md").symlink_to("routines/daily.md")
    validator = JobValidator(
        paths.root, JobFileChecker(paths), lambda: [Pattern.of(text) for text in MAIN_TOOLS]
    )

    async def gate(call: ToolCall) -> Refusal | None:
        reason = validator(call)
        return Refusal(reason) if reason else None

    def edit(old: str, new: str, path: str = "routines/daily.md") -> CallTool:
        return CallTool("Edit", {"file_path": path, "old_string": old, "new_string": new})

    more = "allowed-tools: ['Bash(git *)']\n"
    events = await agent.does(
        gate,
        [
            CallTool("Read", {"file_path": "routines/daily.md"}),
            edit("Plan the day.", "Plan it: xallowed-tools"),
            edit("---\nPlan it", f"{more}---\nPlan it"),
            edit('"a"', f"x\n{more}late: run"),
            edit("---\nPlan it", f"{more}---\nPlan it", "to-daily.md"),
            edit("0 9 * * *", "0 99 * * *"),
            CallTool("Write", {"file_path": "routines/daily.md", "content": "x"}),
            CallTool("Write", {"file_path": "routines/copy.md", "content": DAILY}),
            edit("Plan it: x", "x"),
        ],
    )
    refused = [event.reason for event in events if isinstance(event, ToolRefused)]
    assert len(refused) == 6
    assert len([event for event in events if isinstance(event, ToolEnded)]) == 3
    right = DAILY.replace("Plan the day.", "xallowed-tools")
    assert (paths.routines / "daily.md").read_text() == right
    assert not (paths.routines / "copy.md").exists()
