"""The real engine and a real server: called where allowed, and off once its tools changed."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.features.tool_servers.quick_server import ORDERS
from tests.features.tool_servers.tool_server_scene import ToolServerScene
from tests.kernel.engine.scene import Scene, ask, scene
from tests.kernel.tools.server.tool_scene import make_tool_scene

from ollim_bot.features.tool_servers.server_connection import ServerTimeouts, open_connection
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.permissions.path_rules import PathPolicy
from ollim_bot.kernel.tools.gates import Abilities, BackgroundTools, Careful, main_gate, main_tools
from ollim_bot.kernel.tools.registry import DEFAULT_BG_TOOLS
from ollim_bot.kernel.tools.toolset import toolset
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.ports import AgentSession, ToolCall, Toolset
from ollim_bot.kernel.values.runs import RunKind, RunPolicy
from ollim_bot.kernel.values.tool_servers import ServerSpec
from ollim_bot.offline.server import CallTool, Reply, Say, ToolResult

pytestmark = pytest.mark.real_process

SERVER = Path(__file__).with_name("quick_server.py")
FIND = "mcp__notes__find"


def server_scene(data: Path) -> ToolServerScene:
    """A scene with real servers, and enough time for their start on a busy machine."""
    timeouts = ServerTimeouts(start=60)
    return ToolServerScene(
        data, open_server=lambda spec: open_connection(spec, DataPaths(data), os.environ, timeouts)
    )


def main_tools_of(servers: ToolServerScene) -> Toolset:
    context = make_tool_scene(servers.paths.root, RunKind.MAIN).context
    context.servers = servers.held.tools
    path_policy = PathPolicy(servers.paths.root)
    return toolset(
        context, main_gate(path_policy, allowed=lambda: [*main_tools(), *servers.held.patterns()])
    )


async def tools_of_job(servers: ToolServerScene, *allowed: str) -> Toolset:
    at = make_tool_scene(servers.paths.root)
    job = Reminder(JobSpec(id="abc", message="Look.", allowed_tools=allowed), at.clock.now())
    root = servers.paths.root
    background = BackgroundTools(
        PathPolicy(root),
        lambda: DEFAULT_BG_TOOLS,
        careful=Careful(root, looks=servers.held.looks),
        abilities=Abilities(servers=servers.held.tools),
    )
    at.run.policy, at.run.job = RunPolicy.of_job(job, await background.of(job)), job
    at.context.servers = background.servers
    return toolset(at.context, background.gate(at.run))


async def called(engine: Scene, session: AgentSession) -> ToolResult:
    """What the model is told about a call of `find`."""
    engine.model.then(Reply((CallTool(FIND, {"text": "milk"}),)), Reply((Say("done"),)))
    await ask(session, "go")
    return engine.model.requests[-1].tool_results[0]


async def offered(engine: Scene, session: AgentSession) -> set[str]:
    engine.model.answers("hello")
    await ask(session, "hello")
    return {each for each in engine.model.requests[-1].tools if each.startswith("mcp__notes__")}


async def test_a_tool_is_called_where_it_may_be_and_is_gone_once_it_has_drifted(
    tmp_path: Path,
) -> None:
    manner = tmp_path / "manner"
    manner.write_text("drifted")
    notes = ServerSpec("notes", (sys.executable, str(SERVER)), {"NOTES_MANNER": "/nowhere"})
    async with scene(tmp_path) as engine:
        servers = server_scene(engine.home / "data")
        async with servers.running(), engine.session(main_tools_of(servers)) as main:
            assert await offered(engine, main) == set()

            servers.writes(notes)
            await servers.until(lambda: servers.state().present)
            servers.approves()
            await servers.until(lambda: servers.state().waiting)
            servers.approves()
            await servers.until(lambda: servers.offered)
            told = await called(engine, main)
            assert not told.is_error
            assert "what notes answered\n<untrusted-" in told.text
            assert f"Found: milk. \\</untrusted> {ORDERS}" in told.text

            async with engine.session(await tools_of_job(servers, FIND)) as run:
                assert "Found: milk." in (await called(engine, run)).text
                # The first answer was a stranger's text.
                assert "may not use `mcp__notes__find`" in (await called(engine, run)).text
                servers.says_it_looks("find")
                await servers.until(lambda: servers.held.looks(FIND))
                assert "Found: milk." in (await called(engine, run)).text
            for allowed, reason in (
                ((), f"`{FIND}` is not available in background runs."),
                (("mcp__notes__*",), f"where `{FIND}` has to stand"),
            ):
                gate = (await tools_of_job(servers, *allowed)).gate
                refusal = await gate(ToolCall(FIND, {"text": "milk"}))
                assert refusal is not None
                assert reason in refusal.reason

            servers.writes(replace(notes, environment={"NOTES_MANNER": str(manner)}))
            await servers.until(lambda: servers.state().waiting)
            assert FIND not in await offered(engine, main)
            assert "mcp__notes__environment" in engine.model.requests[-1].tools
            assert ORDERS not in str(engine.model.requests[-1].body["tools"])
