"""An engine that recalls what it was asked as the real one does: by a record that may be torn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.conversation.fate import Fate

from ollim_bot.domain.events import (
    AgentEvent,
    EndCause,
    FailureKind,
    SessionNamed,
    TextCompleted,
    TextStreamed,
    ToolEnded,
    ToolRefused,
    ToolStarted,
    TurnEnded,
    TurnFailure,
    Usage,
)
from ollim_bot.domain.runtime_config import Thinking
from ollim_bot.domain.sessions import SessionId
from ollim_bot.errors import SessionLost
from ollim_bot.ports import (
    OfferedSkill,
    Prompt,
    SessionSpec,
    StoredSession,
    ToolCall,
    Toolset,
    Trace,
)

WRITE = "write it down"
ANSWER = "It is written down."


@dataclass(frozen=True)
class Asked:
    id: str | None
    text: str


@dataclass(frozen=True)
class Called:
    tool: str


@dataclass(frozen=True)
class Said:
    text: str


Entry = Asked | Called | Said


@dataclass(frozen=True)
class Death:
    """The engine alone dies, or loses its session, at this step of a turn.

    `lost` is how much of its record is gone with it; a session that is lost is so as a whole.
    """

    step: str
    kind: FailureKind
    lost: int


class RecallingEngine:
    """A model that is asked to write something down does so unless it knows that it did.

    It knows from its record; and where it is told that it had called the tool, it looks at
    `effects`, which is what the world got. `fate` is that of the life it is used in; `meanwhile`
    is done once, in the middle of an answer.
    """

    def __init__(self) -> None:
        self.records: dict[SessionId, list[Entry]] = {}
        self.effects: list[str] = []
        self.asked: list[str] = []
        self.fate = Fate()
        self.deaths: list[Death] = []
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        self._safe: dict[SessionId, int] = {}

    def begin_life(self, fate: Fate) -> None:
        self.fate = fate
        self._safe = {session: len(record) for session, record in self.records.items()}

    def copied(self) -> RecallingEngine:
        """An engine that knows the same, before the next life."""
        copied = RecallingEngine()
        copied.records = {session: [*record] for session, record in self.records.items()}
        copied.effects = [*self.effects]
        copied.asked = [*self.asked]
        copied.deaths = [*self.deaths]
        copied._safe = {**self._safe}
        return copied

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[RecallingSession]:
        self.fate.step("the engine is opened")
        before = spec.resume or spec.branch_of
        if before is not None and before not in self.records:
            raise SessionLost(before)
        yield RecallingSession(self, spec, tools)

    async def knows(self, session: SessionId) -> bool:
        return session in self.records

    async def trace(self, session: SessionId, prompt: str) -> Trace:
        self.fate.check()
        record = self.records.get(session, [])
        places = [
            n for n, each in enumerate(record) if isinstance(each, Asked) and each.id == prompt
        ]
        if not places:
            return Trace(is_taken=False)
        said = [each.text for each in turn_from(record, places[0]) if isinstance(each, Said)]
        return Trace(is_taken=True, is_complete=bool(said), answer="\n\n".join(said))

    async def sessions(self, working_directory: Path, limit: int) -> Sequence[StoredSession]:
        raise NotImplementedError(working_directory, limit)

    def forget_last(self, count: int) -> None:
        """What was still to be written when the process died; what is from before is safe."""
        for session, record in [*self.records.items()]:
            kept = record[: max(self._safe.get(session, 0), len(record) - count)]
            if kept:
                self.records[session] = kept
            else:
                del self.records[session]

    def prompts(self) -> list[str]:
        """Those that were taken for good."""
        entries = (each for record in self.records.values() for each in record)
        return [each.text for each in entries if isinstance(each, Asked)]


class RecallingSession:
    def __init__(self, engine: RecallingEngine, spec: SessionSpec, tools: Toolset) -> None:
        self._engine = engine
        self._spec = spec
        self._tools = tools
        self._is_stopped = False
        self.usage = Usage()

    @property
    def id(self) -> SessionId | None:
        return self._spec.resume

    async def turn(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        self._is_stopped = False
        self._engine.asked.append(prompt.text)
        async for event in self._run(prompt):
            if self._is_stopped:
                yield TurnEnded(EndCause.INTERRUPTED)
                return
            yield event
            if isinstance(event, TurnEnded):
                return

    def command(self, line: str) -> AsyncIterator[AgentEvent]:
        raise NotImplementedError(line)

    async def interrupt(self) -> None:
        self._is_stopped = True

    async def reconfigure(
        self,
        *,
        model: str | None,
        thinking: Thinking,
        system_prompt: str,
        skills: tuple[OfferedSkill, ...],
    ) -> None:
        self._spec = replace(
            self._spec,
            model=model,
            thinking=thinking,
            system_prompt=system_prompt,
            skills=skills,
        )

    async def _run(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        name = self._spec.resume or self._spec.begin
        assert name is not None
        if dies := self._step("it is asked"):
            yield dies
        record = self._engine.records.setdefault(name, [])
        record.append(Asked(prompt.id, prompt.text))
        if dies := self._step("the prompt is taken"):
            yield dies
        self._spec = replace(self._spec, resume=name)
        yield SessionNamed(name)
        if dies := self._step("the session is named"):
            yield dies
        if self._has_to_write(record):
            async for event in self._write(record):
                yield event
        answer = _answer(record)
        yield TextStreamed(answer[:3])
        if dies := self._step("it streams"):
            yield dies
        if self._engine.meanwhile is not None:
            meanwhile, self._engine.meanwhile = self._engine.meanwhile, None
            await meanwhile()
            yield TextStreamed("…")
        record.append(Said(answer))
        if dies := self._step("the answer is recorded"):
            yield dies
        yield TextStreamed(answer[3:])
        yield TextCompleted(answer)
        if dies := self._step("the answer is given"):
            yield dies
        yield TurnEnded(EndCause.COMPLETED, answer)

    async def _write(self, record: list[Entry]) -> AsyncIterator[AgentEvent]:
        yield ToolStarted("call", "Write", {"file_path": "notes.md"})
        refusal = await self._tools.gate(ToolCall("Write", {"file_path": "notes.md"}))
        if refusal is not None:
            yield ToolRefused("call", "Write", refusal.reason)
            return
        if dies := self._step("the tool is about to run"):
            yield dies
        self._engine.effects.append("written")
        if dies := self._step("the tool has run"):
            yield dies
        record.append(Called("Write"))
        if dies := self._step("the call is recorded"):
            yield dies
        yield ToolEnded("call")

    def _has_to_write(self, record: Sequence[Entry]) -> bool:
        asked = [each.text for each in record if isinstance(each, Asked)]
        is_wanted = any(WRITE in text for text in asked) and "set aside" not in asked[-1]
        if not is_wanted or Called("Write") in record:
            return False
        is_said_to_be_done = any("Write(notes.md)" in text for text in asked)
        return not (is_said_to_be_done and self._engine.effects)

    def _step(self, what: str) -> TurnEnded | None:
        """A step of the fate of all; and the end of the turn where the engine alone dies."""
        self._engine.fate.step(what)
        if not self._engine.deaths or self._engine.deaths[0].step != what:
            return None
        death = self._engine.deaths.pop(0)
        if death.kind is FailureKind.SESSION_LOST:
            self._engine.records.clear()
        else:
            self._engine.forget_last(death.lost)
        return TurnEnded(EndCause.FAILED, failure=TurnFailure(death.kind, "It died."))


def _answer(record: Sequence[Entry]) -> str:
    """To the words that it was told last, in this prompt or before it."""
    asked = [each.text for each in record if isinstance(each, Asked)]
    of_forks = ("[fork-started]", "[system] The owner wants to end this fork")
    known = [t for t in asked if t.endswith((WRITE, "hello")) or t.startswith(of_forks)]
    words = known[-1]
    if words.startswith(of_forks):
        return "I am here."
    return "Hello." if words.endswith("hello") else ANSWER


def turn_from(record: Sequence[Entry], start: int) -> Sequence[Entry]:
    """A prompt and all that came of it."""
    later = (n for n in range(start + 1, len(record)) if isinstance(record[n], Asked))
    return record[start : next(later, len(record))]
