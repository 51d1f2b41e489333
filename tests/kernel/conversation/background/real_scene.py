"""Background runs on real files and a scripted model, with the real engine or a doubled one."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from devtools.scripted_model import ScriptedModel
from tests.e2e.model_engine import ModelEngine
from tests.kernel.conversation.background.scene import Scene, background_scene
from tests.kernel.engine.processes import engines_at, eventually
from tests.kernel.engine.scene import engine_at
from tests.kernel.engine.scene import scene as model_scene
from tests.kernel.store.files.data_directory import DataDirectory, QuickDisk

from ollim_bot.kernel.base.clock import SystemClock
from ollim_bot.kernel.tools.registry import MAIN_TOOLS
from ollim_bot.kernel.tools.tool_context import ToolContext
from ollim_bot.kernel.tools.toolset import toolset
from ollim_bot.kernel.values.ports import AgentEngine, Refusal, SessionSpec, ToolCall, Toolset
from ollim_bot.kernel.values.runs import Run, RunKind, RunPolicy
from ollim_bot.offline.server import CallTool, ModelRequest, Reply, Say

PING = "mcp__discord__ping_user"
REPORT = "mcp__discord__report_updates"


@dataclass
class RealScene:
    """`scene` starts the runs, and `model` answers them."""

    home: Path
    model: ScriptedModel
    engine: AgentEngine
    scene: Scene

    @property
    def root(self) -> Path:
        return self.home / "data"

    def main_tools(self) -> Toolset:
        scene = self.scene
        run = Run(RunPolicy(RunKind.MAIN, MAIN_TOOLS), scene.clock.now())
        context = ToolContext(
            run,
            scene.store,
            scene.stores.repositories,
            scene.clock,
            self.root,
            scene.poster,
            lambda: False,
        )
        return toolset(context, _allow_all)

    async def until_no_processes(self) -> None:
        """Wait until all processes of the engine have ended. Only Linux can tell."""
        if sys.platform == "linux":
            await eventually(lambda: not engines_at(self.home), within=60)

    def results(self) -> list[str]:
        """The results of the model's calls, in order."""
        messages = self.model.requests[-1].messages
        return [result.text for message in messages for result in message.tool_results]


async def _allow_all(_: ToolCall) -> Refusal | None:
    return None


@asynccontextmanager
async def real_scene(home: Path) -> AsyncIterator[RealScene]:
    """A scene with the program of the real engine, which takes a second to start."""
    async with (
        model_scene(home) as at,
        _with_files(home, at.model, engine_at(home, at.url)) as made,
    ):
        yield made


@asynccontextmanager
async def in_process_scene(home: Path) -> AsyncIterator[RealScene]:
    """A scene with `ModelEngine`, which runs in this process."""
    model = ScriptedModel()
    async with _with_files(home, model, ModelEngine(model, SystemClock(UTC))) as made:
        yield made


@asynccontextmanager
async def _with_files(
    home: Path, model: ScriptedModel, engine: AgentEngine
) -> AsyncIterator[RealScene]:
    data = DataDirectory(home / "data")
    stores = data.open(QuickDisk())
    async with background_scene(engine, root=data.paths.root, stores=stores) as scene:
        scene.base = SessionSpec("You help.", data.paths.root, thinking="adaptive")
        scene.main = None
        yield RealScene(home, model, engine, scene)


def calls(tool: str, **arguments: object) -> Reply:
    return Reply((CallTool(tool, arguments),))


def says(text: str) -> Reply:
    return Reply((Say(text),))


def as_bytes(value: object) -> bytes:
    """The JSON of a part of a request, without the cache marks, which differ in each request."""
    return json.dumps(_unmarked(value), ensure_ascii=False).encode()


def history(request: ModelRequest) -> list[bytes]:
    messages = request.body["messages"]
    assert isinstance(messages, list)
    return [as_bytes(each) for each in messages]


def _unmarked(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _unmarked(each) for key, each in value.items() if key != "cache_control"}
    return [_unmarked(each) for each in value] if isinstance(value, list) else value
