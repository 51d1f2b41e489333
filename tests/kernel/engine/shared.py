"""One session of the real engine for many tests, since its program takes a second to start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from devtools.scripted_model import ScriptedModel
from tests.kernel.engine.scene import ask, engine_at
from tests.patience import patience

from ollim_bot.kernel.engine.engine import ClaudeEngine
from ollim_bot.kernel.engine.session import ClaudeSession
from ollim_bot.kernel.values.events import AgentEvent
from ollim_bot.kernel.values.ports import Refusal, SessionSpec, Tool, ToolAnswer, ToolCall, Toolset
from ollim_bot.kernel.values.runs import Subagent, Subagents
from ollim_bot.offline.server import ChatModel, Failure, MessagesServer, ModelRequest, Reply

PING = "mcp__chat__ping"
PING_SCHEMA = {
    "type": "object",
    "properties": {"message": {"type": "string"}},
    "required": ["message"],
}
COUNTER = Subagents({"counter": Subagent("counter", "Counts.", "You count.")})

Test = TypeVar("Test", bound=Callable[..., object])


def in_shared_loop(test: Test) -> Test:
    """The session outlives its test, and so must its loop."""
    marked: Test = pytest.mark.real_engine(pytest.mark.asyncio(loop_scope="session")(test))
    return marked


class SharedSession:
    """`renew` gives the next test an empty script, and allows all tools. With `other_model`, that
    one answers.

    The session keeps its earlier turns. The tool `PING` calls the one tool of the server `chat` in
    `tools`.
    """

    engine: ClaudeEngine
    session: ClaudeSession

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / "data"
        self.data.mkdir()
        self.renew()

    def renew(self) -> None:
        self.model = ScriptedModel()
        self.other_model: ChatModel | None = None
        self.tools = Toolset()

    @asynccontextmanager
    async def limited(self) -> AsyncIterator[ClaudeSession]:
        """The session, with a time limit for the test."""
        async with asyncio.timeout(patience()):
            yield self.session

    async def ask(self, text: str) -> list[AgentEvent]:
        async with self.limited() as session:
            return await ask(session, text)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        builtin = ("Agent", "Bash", "Read", "Write")
        spec = SessionSpec("You help.", self.data, subagents=COUNTER)
        async with MessagesServer(self) as server:
            self.engine = engine_at(self.home, server.url)
            toolset = changing_toolset(lambda: self.tools, builtin)
            async with self.engine.open(spec, toolset) as self.session:
                yield

    def reply(self, request: ModelRequest) -> Reply | Failure:
        return (self.other_model or self.model).reply(request)


def changing_toolset(tools: Callable[[], Toolset], builtin: tuple[str, ...] = ()) -> Toolset:
    """A toolset with one tool `PING`, whose calls go to the current `tools` of the test."""

    async def run(arguments: Mapping[str, object]) -> ToolAnswer:
        (tool,) = tools().servers["chat"]
        return await tool.run(arguments)

    async def gate(call: ToolCall) -> Refusal | None:
        return await tools().gate(call)

    async def may_end() -> str | None:
        return await tools().may_end()

    async def after_call(call: ToolCall, result: str) -> None:
        await tools().after_call(call, result)

    ping = Tool("ping", "Sends a message", PING_SCHEMA, run)
    return Toolset({"chat": (ping,)}, builtin, gate, may_end, after_call)
