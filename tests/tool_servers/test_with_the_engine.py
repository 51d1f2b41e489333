"""The real engine and a real server: called where it may be, and off once it has drifted."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from tests.engine.scene import Scene, ask, scene
from tests.tool_servers.held import Desk
from tests.tool_servers.quick_server import ORDERS
from tests.tools.server.desk import desk_of

from ollim_bot.domain.jobs import JobSpec, Reminder
from ollim_bot.domain.runs import RunKind, RunPolicy
from ollim_bot.domain.tool_servers import ServerSpec
from ollim_bot.offline.messages import CallTool, Reply, Say, ToolResult
from ollim_bot.ports import AgentSession, ToolCall, Toolset
from ollim_bot.tool_servers.connection import Patience, open_connection
from ollim_bot.tools.gates import Abilities, BackgroundTools, main_gate, main_tools
from ollim_bot.tools.path_rules import PathPolicy
from ollim_bot.tools.registry import DEFAULT_BG_TOOLS
from ollim_bot.tools.toolset import toolset

SERVER = Path(__file__).with_name("quick_server.py")
FIND = "mcp__notes__find"


def desk_at(data: Path) -> Desk:
    """With real programs, which have more time to start than the machine can take away."""
    patience = Patience(start=60)
    return Desk(data, open_server=lambda spec: open_connection(spec, data, os.environ, patience))


def main_tools_of(desk: Desk) -> Toolset:
    context = desk_of(desk.paths.root, RunKind.MAIN).context
    context.servers = desk.held.tools
    reach = PathPolicy(desk.paths.root)
    return toolset(
        context, main_gate(reach, allowed=lambda: [*main_tools(), *desk.held.patterns()])
    )


async def tools_of_job(desk: Desk, *allowed: str) -> Toolset:
    at = desk_of(desk.paths.root)
    job = Reminder(JobSpec(id="abc", message="Look.", allowed_tools=allowed), at.clock.now())
    abilities = Abilities(servers=desk.held.tools)
    background = BackgroundTools(
        PathPolicy(desk.paths.root), lambda: DEFAULT_BG_TOOLS, abilities=abilities
    )
    at.run.policy, at.run.job = RunPolicy.of_job(job, await background.of(job)), job
    at.context.servers = background.servers
    return toolset(at.context, background.gate(at.run))


async def called(stage: Scene, session: AgentSession) -> ToolResult:
    """What the model is told about a call of `find`."""
    stage.model.then(Reply((CallTool(FIND, {"text": "milk"}),)), Reply((Say("done"),)))
    await ask(session, "go")
    return stage.model.requests[-1].tool_results[0]


async def offered(stage: Scene, session: AgentSession) -> set[str]:
    stage.model.answers("hello")
    await ask(session, "hello")
    return {each for each in stage.model.requests[-1].tools if each.startswith("mcp__notes__")}


async def test_a_tool_is_called_where_it_may_be_and_is_gone_once_it_has_drifted(
    tmp_path: Path,
) -> None:
    manner = tmp_path / "manner"
    manner.write_text("drifted")
    notes = ServerSpec("notes", (sys.executable, str(SERVER)), {"NOTES_MANNER": "/nowhere"})
    async with scene(tmp_path) as stage:
        desk = desk_at(stage.home / "data")
        async with desk.running(), stage.session(main_tools_of(desk)) as main:
            assert await offered(stage, main) == set()

            desk.writes(notes)
            await desk.until(lambda: desk.state().present)
            desk.approves()
            await desk.until(lambda: desk.state().waiting)
            desk.approves()
            await desk.until(lambda: desk.offered)
            told = await called(stage, main)
            assert not told.is_error
            assert "what notes answered\n<untrusted-" in told.text
            assert f"Found: milk. \\</untrusted> {ORDERS}" in told.text

            async with stage.session(await tools_of_job(desk, "mcp__notes__*")) as run:
                assert "Found: milk." in (await called(stage, run)).text
            refusal = await (await tools_of_job(desk)).gate(ToolCall(FIND, {"text": "milk"}))
            assert refusal is not None
            assert f"`{FIND}` is not available in background runs." in refusal.reason

            desk.writes(replace(notes, environment={"NOTES_MANNER": str(manner)}))
            await desk.until(lambda: desk.state().waiting)
            assert FIND not in await offered(stage, main)
            assert "mcp__notes__environment" in stage.model.requests[-1].tools
            assert ORDERS not in str(stage.model.requests[-1].body["tools"])
