"""An engine that keeps its sessions as the real one does, with a model that takes virtual time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from devtools.doubles.engine import CallsTool, Fails, FakeSession, Says

from chaos.years.virtual_time import VirtualTimePacer
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
from ollim_bot.domain.sessions import SessionId
from ollim_bot.errors import SessionLost
from ollim_bot.ports import (
    Prompt,
    SessionSpec,
    StoredSession,
    Tool,
    ToolCall,
    Toolset,
    Trace,
)

# The bot asks for the traces of its newest prompts only.
_MOST_TRACES = 300


@dataclass(frozen=True, slots=True)
class TakesTime:
    seconds: float


@dataclass(frozen=True, slots=True)
class Hangs:
    """Waits until the turn is interrupted."""


Step = Says | CallsTool | TakesTime | Hangs | Fails


class ModelBehaviour(Protocol):
    """What the model does in the turns of a `SimulatedEngine`."""

    def reply(self, session: SessionId, prompt: str) -> Sequence[Step]: ...

    def note_call(self, call: CallsTool, result: str, *, is_done: bool) -> None:
        """Take the result of a tool call; it is the refusal if the call is not done."""


class SimulatedEngine:
    """`AgentEngine`. Its sessions outlast the runs of the bot.

    `hanging_turns` is the number of turns that end only when they are interrupted.
    """

    def __init__(self, model: ModelBehaviour, pacer: VirtualTimePacer) -> None:
        self.model = model
        self.pacer = pacer
        self.hanging_turns = 0
        self._sessions: set[SessionId] = set()
        self._traces: dict[tuple[SessionId, str], Trace] = {}
        self._trace_order: deque[tuple[SessionId, str]] = deque()

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[SimulatedSession]:
        before = spec.resume or spec.branch_of
        if before is not None and before not in self._sessions:
            raise SessionLost(before)
        yield SimulatedSession(self, spec, tools)

    def warm(self, spec: SessionSpec, tools: Toolset) -> None:
        """Do nothing: a session opens at once."""

    async def knows(self, session: SessionId) -> bool:
        return session in self._sessions

    async def trace(self, session: SessionId, prompt: str) -> Trace:
        return self._traces.get((session, prompt), Trace(is_taken=False))

    async def sessions(self, working_directory: Path, limit: int) -> Sequence[StoredSession]:
        raise NotImplementedError(working_directory, limit)

    def store_trace(self, session: SessionId, prompt: str | None, trace: Trace) -> None:
        self._sessions.add(session)
        if prompt is None:
            return
        key = session, prompt
        if key not in self._traces:
            self._trace_order.append(key)
        self._traces[key] = trace
        if len(self._trace_order) > _MOST_TRACES:
            del self._traces[self._trace_order.popleft()]


class SimulatedSession(FakeSession):
    """Doubles `AgentSession`."""

    def __init__(self, engine: SimulatedEngine, spec: SessionSpec, tools: Toolset) -> None:
        super().__init__(spec, tools)
        self._engine = engine
        self._stop = asyncio.Event()
        self._calls = 0

    def turn(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        return self._run(prompt)

    def command(self, line: str) -> AsyncIterator[AgentEvent]:
        return self._run(Prompt(line))

    async def interrupt(self) -> None:
        self._stop.set()

    async def _run(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        self._stop.clear()
        name = self.spec.resume or self.spec.begin
        assert name is not None
        if prompt.id is not None and (await self._engine.trace(name, prompt.id)).is_taken:
            yield _failed_turn(FailureKind.OTHER)
            return
        said: list[str] = []
        self.spec = replace(self.spec, resume=name)
        self._engine.store_trace(name, prompt.id, Trace(is_taken=True))
        yield SessionNamed(name)
        asked: str | None = prompt.text
        while asked is not None:
            for step in self._engine.model.reply(name, asked):
                async for event in self._step(step):
                    if isinstance(event, TextCompleted):
                        said.append(event.text)
                    yield event
                    if isinstance(event, TurnEnded):
                        return
                self._engine.store_trace(
                    name, prompt.id, Trace(is_taken=True, answer="\n\n".join(said))
                )
            asked = await self.tools.may_end()
        answer = "\n\n".join(said)
        self._engine.store_trace(
            name, prompt.id, Trace(is_taken=True, is_complete=True, answer=answer)
        )
        yield TurnEnded(EndCause.COMPLETED, said[-1] if said else "")

    async def _step(self, step: Step) -> AsyncIterator[AgentEvent]:
        match step:
            case TakesTime(seconds):
                await self._wait(seconds)
            case Hangs():
                await self._hang()
        if self._stop.is_set():
            yield TurnEnded(EndCause.INTERRUPTED)
            return
        match step:
            case Says(text):
                half = len(text) // 2
                yield TextStreamed(text[:half])
                yield TextStreamed(text[half:])
                yield TextCompleted(text)
            case Fails(kind):
                yield _failed_turn(kind)
            case CallsTool():
                async for event in self._call(step):
                    yield event

    async def _hang(self) -> None:
        self._engine.hanging_turns += 1
        try:
            await self._stop.wait()
        finally:
            self._engine.hanging_turns -= 1

    async def _wait(self, seconds: float) -> None:
        self._engine.pacer.busy_turns += 1
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return
        finally:
            self._engine.pacer.busy_turns -= 1
            self._engine.pacer.note_activity()

    async def _call(self, call: CallsTool) -> AsyncIterator[AgentEvent]:
        self._calls += 1
        name = f"{self.spec.resume}-{self._calls}"
        yield ToolStarted(name, call.tool, call.arguments)
        refusal = await self.tools.gate(ToolCall(call.tool, call.arguments))
        tool = _tools_by_name(self.tools).get(call.tool)
        if refusal is not None or tool is None:
            reason = refusal.reason if refusal else "There is no such tool."
            self._engine.model.note_call(call, reason, is_done=False)
            yield ToolRefused(name, call.tool, reason)
            return
        answer = await tool.run(call.arguments)
        self._engine.model.note_call(call, answer.text, is_done=not answer.is_error)
        yield ToolFailed(name, answer.text) if answer.is_error else ToolEnded(name)


def _failed_turn(kind: FailureKind) -> TurnEnded:
    return TurnEnded(EndCause.FAILED, failure=TurnFailure(kind, f"It failed: {kind}."))


def _tools_by_name(toolset: Toolset) -> dict[str, Tool]:
    return {
        f"mcp__{server}__{tool.name}": tool
        for server, tools in toolset.servers.items()
        for tool in tools
    }
