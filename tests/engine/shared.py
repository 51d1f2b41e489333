"""One session of the real engine for many tests, since its program takes a second to start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.engine.scene import LIMIT, ask, engine_at

from ollim_bot.domain.events import AgentEvent
from ollim_bot.domain.subagents import Subagent, Subagents
from ollim_bot.engine.session import ClaudeSession
from ollim_bot.offline.messages import Failure, ModelRequest, Reply
from ollim_bot.offline.scripted import ScriptedModel
from ollim_bot.offline.server import MessagesServer
from ollim_bot.ports import Refusal, SessionSpec, Tool, ToolAnswer, ToolCall, Toolset

COUNTER = Subagents({"counter": Subagent("counter", "Counts.", "You count.")})
PING = "mcp__chat__ping"
PING_SCHEMA = {
    "type": "object",
    "properties": {"message": {"type": "string"}},
    "required": ["message"],
}


class SharedSession:
    """`renew` gives the next test an empty script, and lets all tools through.

    What was said before stays in the session. The tool `PING` does what the one tool of the server
    `chat` in `tools` does.
    """

    session: ClaudeSession

    def __init__(self, home: Path) -> None:
        self.data = home / "data"
        self.data.mkdir()
        self._home = home
        self.renew()

    def renew(self) -> None:
        self.model = ScriptedModel()
        self.tools = Toolset()

    @asynccontextmanager
    async def limited(self) -> AsyncIterator[ClaudeSession]:
        """The session, for a test that ends in time."""
        async with asyncio.timeout(LIMIT):
            yield self.session

    async def ask(self, text: str) -> list[AgentEvent]:
        async with self.limited() as session:
            return await ask(session, text)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        ping = Tool("ping", "Sends a message", PING_SCHEMA, self._run)
        builtin = ("Agent", "Bash", "Read", "Write")
        toolset = Toolset({"chat": (ping,)}, builtin, self._gate, self._may_end, self._after_call)
        async with (
            MessagesServer(self) as server,
            engine_at(self._home, server.url).open(
                SessionSpec("You help.", self.data, subagents=COUNTER), toolset
            ) as self.session,
        ):
            yield

    def reply(self, request: ModelRequest) -> Reply | Failure:
        return self.model.reply(request)

    async def _run(self, arguments: Mapping[str, object]) -> ToolAnswer:
        (tool,) = self.tools.servers["chat"]
        return await tool.run(arguments)

    async def _gate(self, call: ToolCall) -> Refusal | None:
        return await self.tools.gate(call)

    async def _may_end(self) -> str | None:
        return await self.tools.may_end()

    async def _after_call(self, call: ToolCall, result: str) -> None:
        await self.tools.after_call(call, result)
