"""An engine without a model: it does in each turn what a test has written down for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Self

from ollim_bot.agent import Prompt, SessionSpec, Tool, ToolCall, Toolset
from ollim_bot.domain.events import (
    AgentEvent,
    EndCause,
    FailureKind,
    SessionNamed,
    TextCompleted,
    TextStreamed,
    ToolEnded,
    ToolFailed,
    ToolRefused,
    ToolStarted,
    TurnEnded,
    TurnFailure,
)
from ollim_bot.domain.runtime_config import Thinking
from ollim_bot.domain.sessions import SessionId
from ollim_bot.errors import SessionLost


@dataclass(frozen=True, slots=True)
class Says:
    text: str


@dataclass(frozen=True, slots=True)
class Calls:
    """A tool of the session by its full name, such as `mcp__discord__ping_user`."""

    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Waits:
    """Until the turn is interrupted."""


@dataclass(frozen=True, slots=True)
class Fails:
    kind: FailureKind


Step = Says | Calls | Waits | Fails | AgentEvent


class ScriptedEngine:
    """Doubles `AgentEngine`. Turns take the scripts in order; the last default is one word."""

    def __init__(self) -> None:
        self.sessions: list[ScriptedSession] = []
        self.prompts: list[str] = []
        self.known: set[SessionId] = set()
        self._scripts: deque[Sequence[Step]] = deque()
        self._numbers = count(1)
        self._calls = count(1)

    def then(self, *steps: Step) -> Self:
        """The next turn does this."""
        self._scripts.append(steps)
        return self

    def answers(self, *texts: str) -> Self:
        for text in texts:
            self.then(Says(text))
        return self

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ScriptedSession]:
        if spec.resume is not None and spec.resume not in self.known:
            raise SessionLost(spec.resume)
        session = ScriptedSession(self, spec, tools)
        self.sessions.append(session)
        yield session

    def next_script(self) -> Sequence[Step]:
        return self._scripts.popleft() if self._scripts else (Says("ok"),)

    def new_session_id(self) -> SessionId:
        return SessionId(f"session-{next(self._numbers)}")

    def new_call_id(self) -> str:
        return f"call-{next(self._calls)}"


class ScriptedSession:
    """Doubles `AgentSession`."""

    def __init__(self, engine: ScriptedEngine, spec: SessionSpec, tools: Toolset) -> None:
        self.spec = spec
        self.tools = tools
        self._engine = engine
        self._one_at_a_time = asyncio.Lock()
        self._stop = asyncio.Event()

    @property
    def id(self) -> SessionId | None:
        return self.spec.resume

    def turn(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        return self._run(prompt.text)

    def command(self, line: str) -> AsyncIterator[AgentEvent]:
        return self._run(line)

    async def interrupt(self) -> None:
        self._stop.set()

    async def reconfigure(self, *, model: str | None, thinking: Thinking) -> None:
        self.spec = replace(self.spec, model=model, thinking=thinking)

    async def _run(self, text: str) -> AsyncIterator[AgentEvent]:
        async with self._one_at_a_time:
            self._stop.clear()
            yield self._named()
            said = ""
            asked: str | None = text
            while asked is not None:
                self._engine.prompts.append(asked)
                for step in self._engine.next_script():
                    async for event in self._step(step):
                        yield event
                        said = event.text if isinstance(event, TextCompleted) else said
                        if isinstance(event, TurnEnded):
                            return
                asked = await self.tools.may_end()
            yield TurnEnded(EndCause.COMPLETED, said)

    def _named(self) -> SessionNamed:
        session_id = self.spec.resume or self._engine.new_session_id()
        self.spec = replace(self.spec, resume=session_id)
        self._engine.known.add(session_id)
        return SessionNamed(session_id)

    async def _step(self, step: Step) -> AsyncIterator[AgentEvent]:
        if isinstance(step, Waits):
            await self._stop.wait()
        if self._stop.is_set():
            yield TurnEnded(EndCause.INTERRUPTED)
        elif isinstance(step, Calls):
            async for event in self._call(step):
                yield event
        elif not isinstance(step, Waits):
            for event in _events(step):
                yield event

    async def _call(self, call: Calls) -> AsyncIterator[AgentEvent]:
        call_id = self._engine.new_call_id()
        yield ToolStarted(call_id, call.tool, call.arguments)
        refusal = await self.tools.gate(ToolCall(call.tool, call.arguments))
        tool = _tools(self.tools).get(call.tool)
        if refusal is not None:
            yield ToolRefused(call_id, call.tool, refusal.reason)
        elif tool is None:
            yield ToolEnded(call_id)
        else:
            answer = await tool.run(call.arguments)
            yield ToolFailed(call_id, answer.text) if answer.is_error else ToolEnded(call_id)


def _tools(toolset: Toolset) -> dict[str, Tool]:
    return {
        f"mcp__{server}__{tool.name}": tool
        for server, tools in toolset.servers.items()
        for tool in tools
    }


def _events(step: Says | Fails | AgentEvent) -> Iterator[AgentEvent]:
    match step:
        case Says(text):
            yield TextStreamed(text)
            yield TextCompleted(text)
        case Fails(kind):
            yield TurnEnded(EndCause.FAILED, failure=TurnFailure(kind, f"It failed: {kind}."))
        case _:
            yield step
