"""An engine without a model: each turn plays the script that a test has written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Self

from devtools.doubles.clock import ManualClock
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import SessionLost
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.values.events import (
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
    UsageReported,
    tool_label,
)
from ollim_bot.kernel.values.ports import (
    OfferedSkill,
    Prompt,
    SessionSpec,
    StoredSession,
    Tool,
    ToolAnswer,
    ToolCall,
    Toolset,
    Trace,
)
from ollim_bot.kernel.values.runtime_config import Thinking
from ollim_bot.kernel.values.usage import Usage

_LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Says:
    text: str


@dataclass(frozen=True, slots=True)
class CallsTool:
    """Calls a tool of the session by its full name, such as `mcp__discord__ping_user`.

    `result` is what a tool of the engine answers. The call of a `subagent` yields no events.
    """

    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    result: str = ""
    subagent: str = ""


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits until the turn is interrupted."""


@dataclass(frozen=True, slots=True)
class Fails:
    kind: FailureKind


Step = Says | CallsTool | Waits | Fails | AgentEvent


class ScriptedEngine:
    """Doubles `AgentEngine`. Turns take the scripts in order; without one, a turn says `ok`.

    `traces` is its record of prompts, by session and prompt; a test may add or remove entries as a
    crash would.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.opened: list[ScriptedSession] = []
        self.prompts: list[str] = []
        self.known: set[SessionId] = set()
        self.traces: dict[tuple[SessionId, str], Trace] = {}
        self._clock = clock or ManualClock(_LONG_AGO)
        self._stored: dict[SessionId, tuple[Path, StoredSession]] = {}
        self._scripts: deque[Sequence[Step]] = deque()
        self._numbers = count(1)
        self._calls = count(1)

    def then(self, *steps: Step) -> Self:
        """The next turn plays these steps."""
        self._scripts.append(steps)
        return self

    def clear(self) -> None:
        """Forget the scripts that no turn has played."""
        self._scripts.clear()

    def answers(self, *texts: str) -> Self:
        for text in texts:
            self.then(Says(text))
        return self

    def copied(self) -> ScriptedEngine:
        """An engine with the same records and the same scripts left, and no session open."""
        copied = copy(self)
        copied.opened = []
        copied.prompts = [*self.prompts]
        copied.known = {*self.known}
        copied.traces = {**self.traces}
        copied._stored = {**self._stored}
        copied._scripts = self._scripts.copy()
        return copied

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ScriptedSession]:
        before = spec.resume or spec.branch_of
        if before is not None and before not in self.known:
            raise SessionLost(before)
        session = ScriptedSession(self, spec, tools)
        self.opened.append(session)
        yield session

    async def knows(self, session: SessionId) -> bool:
        return session in self.known

    async def trace(self, session: SessionId, prompt: str) -> Trace:
        return self.traces.get((session, prompt), Trace(is_taken=False))

    async def sessions(self, working_directory: Path, limit: int) -> Sequence[StoredSession]:
        newest_first = reversed(self._stored.values())
        there = [stored for folder, stored in newest_first if folder == working_directory]
        return there[:limit]

    def next_script(self) -> Sequence[Step]:
        return self._scripts.popleft() if self._scripts else (Says("ok"),)

    def new_session_id(self) -> SessionId:
        return SessionId(f"session-{next(self._numbers)}")

    def new_call_id(self) -> str:
        return f"call-{next(self._calls)}"

    def store(self, session: SessionId, folder: Path, text: str) -> None:
        """Record a text of the session, which makes it the newest."""
        self.known.add(session)
        _, before = self._stored.pop(session, (folder, None))
        now = self._clock.now()
        stored = before or StoredSession(session, now, first_prompt=text, size=0)
        stored = replace(stored, changed_at=now, size=stored.size + len(text.encode()))
        self._stored[session] = folder, stored


class FakeSession:
    """The id and the settings of a session, for all doubles of `AgentSession`."""

    def __init__(self, spec: SessionSpec, tools: Toolset) -> None:
        self.spec = spec
        self.tools = tools
        self.usage = Usage()

    @property
    def id(self) -> SessionId | None:
        return self.spec.resume

    async def reconfigure(
        self,
        *,
        model: str | None,
        thinking: Thinking,
        system_prompt: str,
        skills: tuple[OfferedSkill, ...],
    ) -> None:
        self.spec = replace(
            self.spec, model=model, thinking=thinking, system_prompt=system_prompt, skills=skills
        )


class ScriptedSession(FakeSession):
    """Doubles `AgentSession`."""

    def __init__(self, engine: ScriptedEngine, spec: SessionSpec, tools: Toolset) -> None:
        super().__init__(spec, tools)
        self._engine = engine
        self._one_at_a_time = asyncio.Lock()
        self._stop = asyncio.Event()

    def turn(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        return self._run(prompt)

    def command(self, line: str) -> AsyncIterator[AgentEvent]:
        return self._run(Prompt(line))

    async def interrupt(self) -> None:
        self._stop.set()

    async def _run(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        async with self._one_at_a_time:
            self._stop.clear()
            name = self._name()
            if prompt.id is not None and (name, prompt.id) in self._engine.traces:
                yield TurnEnded(EndCause.FAILED, failure=TurnFailure(FailureKind.OTHER, "Again."))
                return
            yield SessionNamed(name)
            record = _Record(self._engine, self.spec, prompt)
            asked: str | None = prompt.text
            while asked is not None:
                self._engine.prompts.append(asked)
                for step in self._engine.next_script():
                    async for event in self._step(step):
                        record.add(event)
                        self._meter(event)
                        yield event
                        if isinstance(event, TurnEnded):
                            return
                asked = await self.tools.may_end()
            yield record.completed()

    def _meter(self, event: AgentEvent) -> None:
        if isinstance(event, UsageReported | TurnEnded):
            self.usage = event.usage

    def _name(self) -> SessionId:
        session_id = self.spec.resume or self.spec.begin or self._engine.new_session_id()
        self.spec = replace(self.spec, resume=session_id)
        return session_id

    async def _step(self, step: Step) -> AsyncIterator[AgentEvent]:
        if isinstance(step, Waits):
            await self._stop.wait()
        if self._stop.is_set():
            yield TurnEnded(EndCause.INTERRUPTED)
        elif isinstance(step, CallsTool):
            async for event in self._call(step):
                if not step.subagent:
                    yield event
        elif not isinstance(step, Waits):
            for event in _events(step):
                yield event

    async def _call(self, call: CallsTool) -> AsyncIterator[AgentEvent]:
        call_id = self._engine.new_call_id()
        yield ToolStarted(call_id, call.tool, call.arguments)
        made = ToolCall(call.tool, call.arguments, call.subagent)
        refusal = await self.tools.gate(made)
        tool = _tools(self.tools).get(call.tool)
        if refusal is not None:
            yield ToolRefused(call_id, call.tool, refusal.reason)
            return
        answer = await tool.run(call.arguments) if tool else ToolAnswer(call.result)
        await self.tools.after_call(made, answer.text)
        yield ToolFailed(call_id, answer.text) if answer.is_error else ToolEnded(call_id)


class _Record:
    """The record of one turn."""

    def __init__(self, engine: ScriptedEngine, spec: SessionSpec, prompt: Prompt) -> None:
        assert spec.resume is not None
        self._engine = engine
        self._session = spec.resume
        self._folder = spec.working_directory
        self._prompt = prompt.id
        self._texts: list[str] = []
        self._calls: dict[str, str] = {}
        self._ended: list[str] = []
        engine.store(self._session, self._folder, prompt.text)
        self._keep(is_complete=False)

    def add(self, event: AgentEvent) -> None:
        if isinstance(event, TextCompleted):
            self._texts.append(event.text)
            self._engine.store(self._session, self._folder, event.text)
            self._keep(is_complete=False)
        elif isinstance(event, ToolStarted):
            self._calls[event.call_id] = tool_label(event.tool, event.arguments)
        elif isinstance(event, ToolEnded):
            self._ended.append(self._calls[event.call_id])
            self._keep(is_complete=False)
        elif isinstance(event, TurnEnded):
            self._keep(is_complete=event.cause is EndCause.COMPLETED)

    def completed(self) -> TurnEnded:
        self._keep(is_complete=True)
        return TurnEnded(EndCause.COMPLETED, self._texts[-1] if self._texts else "")

    def _keep(self, *, is_complete: bool) -> None:
        if self._prompt is not None:
            answer = "\n\n".join(self._texts)
            ended = tuple(self._ended)
            trace = Trace(is_taken=True, is_complete=is_complete, answer=answer, ended=ended)
            self._engine.traces[self._session, self._prompt] = trace


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
