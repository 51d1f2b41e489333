"""The real engine with a scripted model, and without settings of the person who runs the tests."""

from __future__ import annotations

import asyncio
import os
import struct
import sys
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from devtools.scripted_model import ScriptedModel
from tests.patience import patience

from ollim_bot.kernel.engine.engine import ClaudeEngine
from ollim_bot.kernel.engine.launcher import engine_variables, launcher
from ollim_bot.kernel.engine.session import ClaudeSession
from ollim_bot.kernel.values.events import AgentEvent, TextCompleted, TurnEnded
from ollim_bot.kernel.values.ports import (
    AgentSession,
    Prompt,
    SessionSpec,
    Tool,
    ToolAnswer,
    Toolset,
)
from ollim_bot.kernel.values.provider import CLAUDE, Provider
from ollim_bot.offline.server import MessagesServer, ModelRequest

# Seconds; much more than needed, since the machine may be busy.
SOON = 15.0


def provider(home: Path, url: str) -> dict[str, str]:
    return {
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "ANTHROPIC_API_KEY": "any",
        "ANTHROPIC_AUTH_TOKEN": "",
        "CLAUDE_CODE_OAUTH_TOKEN": "",
        "ANTHROPIC_BASE_URL": url,
        "CLAUDE_CODE_MAX_RETRIES": "1",
    }


def engine_at(
    home: Path, url: str, more: Mapping[str, str] | None = None, asks: Provider = CLAUDE
) -> ClaudeEngine:
    environment = engine_variables(
        {**provider(home, url), **(more or {})}, os.environ, Path(sys.executable).parent
    )
    return ClaudeEngine(environment, home / "run", cli=launcher(home / "run"), provider=asks)


@dataclass
class Scene:
    """A scripted model, and engine sessions that use it."""

    home: Path
    url: str
    model: ScriptedModel = field(default_factory=ScriptedModel)

    @property
    def spec(self) -> SessionSpec:
        return SessionSpec("You help.", self.home / "data")

    @asynccontextmanager
    async def session(
        self, tools: Toolset | None = None, **changes: object
    ) -> AsyncIterator[ClaudeSession]:
        spec = replace(self.spec, **changes)  # type: ignore[arg-type]
        async with (
            asyncio.timeout(patience()),
            engine_at(self.home, self.url).open(spec, tools or Toolset()) as session,
        ):
            yield session


class ChangingTools:
    """Lets a test change the tools of an open session by setting `now`.

    The engine knows only the first tools, so later ones must have the same names and schemas.
    """

    def __init__(self, first: Toolset) -> None:
        self.now = first

    def toolset(self) -> Toolset:
        servers = {
            name: tuple(self._passed_on(name, tool) for tool in tools)
            for name, tools in self.now.servers.items()
        }
        return Toolset(
            servers,
            self.now.builtin,
            gate=lambda call: self.now.gate(call),
            may_end=lambda: self.now.may_end(),
            after_call=lambda call, result: self.now.after_call(call, result),
            commands_of=lambda call: self.now.commands_of(call),
        )

    def _passed_on(self, server: str, tool: Tool) -> Tool:
        async def run(arguments: Mapping[str, object]) -> ToolAnswer:
            (meant,) = (one for one in self.now.servers[server] if one.name == tool.name)
            return await meant.run(arguments)

        return replace(tool, run=run)


@asynccontextmanager
async def scene(home: Path) -> AsyncIterator[Scene]:
    (home / "data").mkdir()
    model = ScriptedModel()
    async with MessagesServer(model) as server:
        yield Scene(home, server.url, model)


async def ask(session: AgentSession, text: str, name: str | None = None) -> list[AgentEvent]:
    return [event async for event in session.turn(Prompt(text, id=name))]


async def end_of(session: AgentSession, text: str, name: str | None = None) -> TurnEnded:
    end = (await ask(session, text, name))[-1]
    assert isinstance(end, TurnEnded)
    return end


async def interrupted(
    session: AgentSession, text: str, *, at: type[AgentEvent], name: str | None = None
) -> list[AgentEvent]:
    """Interrupt the turn at the first event of this type; it must end soon."""
    events: list[AgentEvent] = []
    loop = asyncio.get_running_loop()
    began = None
    async for event in session.turn(Prompt(text, id=name)):
        events.append(event)
        if began is None and isinstance(event, at):
            began = loop.time()
            await session.interrupt()
    assert began is not None
    assert loop.time() - began < SOON
    return events


def texts(events: list[AgentEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, TextCompleted)]


def spoken(request: ModelRequest) -> list[str]:
    """The texts of the conversation so far, of both sides."""
    spoken = (one for one in request.messages if one.role != "system")
    return [text.strip() for one in spoken for text in one.texts]


def tiny_png() -> bytes:
    """A picture of one grey pixel."""
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + header
        + _chunk(b"IDAT", zlib.compress(b"\0\x80"))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
