"""The whole bot with a real tool server: who has read others' words calls only what looks."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count, takewhile
from pathlib import Path

import pytest
from devtools.doubles.engine import CallsTool, Says, ScriptedEngine, ScriptedSession
from devtools.doubles.surface import RecordingSurface
from tests.patience import patience

from ollim_bot.app.app import Adapters, App
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.server_file import read_servers
from ollim_bot.kernel.values.events import AgentEvent, ToolEnded, ToolFailed, ToolRefused, TurnEnded
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import IncomingMessage, SessionSpec, ToolCall, Toolset
from ollim_bot.kernel.values.taint import Untrusted
from ollim_bot.kernel.values.tool_servers import (
    ServerState,
    ToolDefinition,
    ToolHints,
    ToolServerRecord,
)

pytestmark = pytest.mark.real_process

SERVER = Path(__file__).with_name("quick_server.py")
LOOKS = ToolHints(reads_only=True, open_world=False)
FORWARD = Untrusted("forwarded message", "a message that the owner forwarded")
FIND = CallsTool("mcp__notes__find", {"text": "milk"})
ENVIRONMENT = CallsTool("mcp__notes__environment", {"text": "milk"})


def _approved(paths: DataPaths) -> None:
    """Approve the first two tools of the server, as the owner does; the first one looks."""
    spec = read_servers(paths).specs["notes"]
    schema = {"properties": {"text": {"type": "string"}}, "required": ["text"], "type": "object"}
    find = ToolDefinition("find", "Finds a note.", json.dumps(schema, sort_keys=True), LOOKS)
    schema = {"properties": {}, "required": [], "type": "object"}
    other = ToolDefinition(
        "environment", "Shows its environment.", json.dumps(schema, sort_keys=True), ToolHints()
    )
    state = ServerState().written(spec).started().listed([find, other]).approving()
    paths.locks.mkdir(parents=True)
    database = open_database(
        paths, lambda: datetime.now(UTC), is_holder=True, report=lambda _: None
    )
    database.run(lambda tx: tx.tool_servers.put(ToolServerRecord({"notes": state})))
    database.close()


class WatchedEngine(ScriptedEngine):
    """`toolsets` has what each session was opened with, the newest last."""

    def __init__(self) -> None:
        super().__init__()
        self.toolsets: list[Toolset] = []

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ScriptedSession]:
        self.toolsets.append(tools)
        async with super().open(spec, tools) as session:
            yield session


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(patience()):
        for _ in takewhile(lambda _: not condition(), count()):
            await asyncio.sleep(0.01)


async def test_only_a_tool_that_looks_is_called_after_others_words(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path / "data")
    paths.root.mkdir()
    manner = tmp_path / "manner"
    manner.write_text('{"readOnlyHint": true, "openWorldHint": false}')
    command = {"command": sys.executable, "args": ["-S", str(SERVER)]}
    entry = {**command, "env": {"NOTES_MANNER": str(manner)}}
    paths.mcp.write_text(json.dumps({"mcpServers": {"notes": entry}}))
    _approved(paths)
    surface, engine = RecordingSurface(), WatchedEngine()
    for _ in range(200):
        engine.then(FIND, ENVIRONMENT, Says("Done."))
    environ = {"HOME": str(tmp_path), "OLLIM_DATA_DIR": str(paths.root), "OLLIM_TIMEZONE": "UTC"}
    app = App(Settings.from_env(environ, cwd=tmp_path), Adapters(engine=engine, surfaces=[surface]))
    task = asyncio.create_task(app.run())
    turns = count()

    async def outcomes(untrusted: Untrusted | None = None) -> list[AgentEvent]:
        """How the calls of a turn ended."""
        number = next(turns)
        message = IncomingMessage(InputId(f"m{number}"), "test", "go on", untrusted=untrusted)
        await surface.receptions[0].receive(message)
        await _until(lambda: len(surface.starts) > number)
        events = surface.events[surface.starts[number].turn]
        await _until(lambda: any(isinstance(each, TurnEnded) for each in events))
        return [each for each in events if isinstance(each, ToolEnded | ToolRefused | ToolFailed)]

    try:
        await _until(lambda: surface.receptions)
        # The server needs a moment to start.
        while isinstance((await outcomes())[0], ToolFailed):
            pass
        found, refused = await outcomes(FORWARD)
        assert isinstance(found, ToolEnded)
        assert isinstance(refused, ToolRefused)
        assert "a forwarded message, so you may not" in refused.reason

        before = len(engine.toolsets)
        fields = f"late: run\nbackground: true\nallowed-tools: [{FIND.tool}, {ENVIRONMENT.tool}]"
        (paths.reminders / "look.md").write_text(
            f"---\nid: look\nrun-at: 2026-01-01T09:00\n{fields}\n---\nLook.\n"
        )
        await _until(lambda: len(engine.toolsets) > before)
        gate = engine.toolsets[before].gate
        await engine.toolsets[before].after_call(ToolCall("WebFetch", {}), "a page")
        assert await gate(ToolCall(FIND.tool, FIND.arguments)) is None
        assert await gate(ToolCall(ENVIRONMENT.tool, ENVIRONMENT.arguments)) is not None
    finally:
        app.stop()
        await asyncio.wait({task})
