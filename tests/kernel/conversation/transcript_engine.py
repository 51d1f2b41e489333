"""A fake engine that remembers by a transcript, as the real one, and may lose the end of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from devtools.doubles.engine import FakeSession
from tests.kernel.conversation.crashing import StepCounter

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
    ToolRefused,
    ToolStarted,
    TurnEnded,
    TurnFailure,
)
from ollim_bot.kernel.values.ports import (
    Prompt,
    SessionSpec,
    StoredSession,
    ToolCall,
    Toolset,
    Trace,
)
from ollim_bot.kernel.values.usage import Usage

WRITE = "write it down"
ANSWER = "It is written down."


@dataclass(frozen=True)
class PromptEntry:
    id: str | None
    text: str


@dataclass(frozen=True)
class ToolCallEntry:
    tool: str


@dataclass(frozen=True)
class AnswerEntry:
    text: str


TranscriptEntry = PromptEntry | ToolCallEntry | AnswerEntry


@dataclass(frozen=True)
class EngineCrash:
    """At this step of a turn the engine crashes, or loses its session, while the bot runs on.

    `lost` is how many of the last entries the transcript loses. With a lost session, all
    transcripts are lost.
    """

    step: str
    kind: FailureKind
    lost: int


class TranscriptEngine:
    """Its model, asked to write something down, does so unless it knows that it already did.

    It knows that from its transcript. If a prompt says that the tool was already called, it checks
    `effects`, the writes that really happened. `counter` counts the steps of the present run of
    the bot. `meanwhile` is called once, in the middle of an answer.
    """

    def __init__(self) -> None:
        self.transcripts: dict[SessionId, list[TranscriptEntry]] = {}
        self.effects: list[str] = []
        self.asked: list[str] = []
        self.counter = StepCounter()
        self.crashes: list[EngineCrash] = []
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        self._safe_lengths: dict[SessionId, int] = {}

    def begin_run(self, counter: StepCounter) -> None:
        self.counter = counter
        self._safe_lengths = {
            session: len(transcript) for session, transcript in self.transcripts.items()
        }

    def copied(self) -> TranscriptEngine:
        """An engine with the same memory, for another run."""
        copied = TranscriptEngine()
        copied.transcripts = {
            session: [*transcript] for session, transcript in self.transcripts.items()
        }
        copied.effects = [*self.effects]
        copied.asked = [*self.asked]
        copied.crashes = [*self.crashes]
        copied._safe_lengths = {**self._safe_lengths}
        return copied

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[TranscriptSession]:
        self.counter.step("the engine is opened")
        before = spec.resume or spec.branch_of
        if before is not None and before not in self.transcripts:
            raise SessionLost(before)
        yield TranscriptSession(self, spec, tools)

    async def knows(self, session: SessionId) -> bool:
        return session in self.transcripts

    async def trace(self, session: SessionId, prompt: str) -> Trace:
        self.counter.check()
        transcript = self.transcripts.get(session, [])
        places = [
            n
            for n, each in enumerate(transcript)
            if isinstance(each, PromptEntry) and each.id == prompt
        ]
        if not places:
            return Trace(is_taken=False)
        turn = turn_from(transcript, places[0])
        said = [each.text for each in turn if isinstance(each, AnswerEntry)]
        ended = tuple("Write(notes.md)" for each in turn if isinstance(each, ToolCallEntry))
        return Trace(True, bool(said), "\n\n".join(said), ended)

    async def sessions(self, working_directory: Path, limit: int) -> Sequence[StoredSession]:
        raise NotImplementedError(working_directory, limit)

    def forget_last(self, count: int) -> None:
        """Lose the last entries of each transcript, but none from before the present run."""
        for session, transcript in [*self.transcripts.items()]:
            kept = transcript[: max(self._safe_lengths.get(session, 0), len(transcript) - count)]
            if kept:
                self.transcripts[session] = kept
            else:
                del self.transcripts[session]

    def prompts(self) -> list[str]:
        """The prompts that are still in the transcripts."""
        entries = (each for transcript in self.transcripts.values() for each in transcript)
        return [each.text for each in entries if isinstance(each, PromptEntry)]


# What each answer costs, in dollars.
COST = 0.01


class TranscriptSession(FakeSession):
    def __init__(self, engine: TranscriptEngine, spec: SessionSpec, tools: Toolset) -> None:
        super().__init__(spec, tools)
        self._engine = engine
        self._is_stopped = False

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

    async def _run(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        name = self.spec.resume or self.spec.begin
        assert name is not None
        if failed := self._step("it is asked"):
            yield failed
        transcript = self._engine.transcripts.setdefault(name, [])
        transcript.append(PromptEntry(prompt.id, prompt.text))
        if failed := self._step("the prompt is taken"):
            yield failed
        self.spec = replace(self.spec, resume=name)
        yield SessionNamed(name)
        if failed := self._step("the session is named"):
            yield failed
        if self._must_write(transcript):
            async for event in self._write(transcript):
                yield event
        answer = _answer(transcript)
        yield TextStreamed(answer[:3])
        if failed := self._step("it streams"):
            yield failed
        if self._engine.meanwhile is not None:
            meanwhile, self._engine.meanwhile = self._engine.meanwhile, None
            await meanwhile()
            yield TextStreamed("…")
        transcript.append(AnswerEntry(answer))
        if failed := self._step("the answer is recorded"):
            yield failed
        yield TextStreamed(answer[3:])
        yield TextCompleted(answer)
        if failed := self._step("the answer is given"):
            yield failed
        used = Usage(self.usage.context + 10, 5, self.usage.cost_usd + COST, model="m")
        self.usage = used
        yield TurnEnded(EndCause.COMPLETED, answer, usage=used)

    async def _write(self, transcript: list[TranscriptEntry]) -> AsyncIterator[AgentEvent]:
        yield ToolStarted("call", "Write", {"file_path": "notes.md"})
        refusal = await self.tools.gate(ToolCall("Write", {"file_path": "notes.md"}))
        if refusal is not None:
            yield ToolRefused("call", "Write", refusal.reason)
            return
        if failed := self._step("the tool is about to run"):
            yield failed
        self._engine.effects.append("written")
        if failed := self._step("the tool has run"):
            yield failed
        transcript.append(ToolCallEntry("Write"))
        if failed := self._step("the call is recorded"):
            yield failed
        yield ToolEnded("call")

    def _must_write(self, transcript: Sequence[TranscriptEntry]) -> bool:
        asked = [each.text for each in transcript if isinstance(each, PromptEntry)]
        is_wanted = any(WRITE in text for text in asked) and "set aside" not in asked[-1]
        if not is_wanted or ToolCallEntry("Write") in transcript:
            return False
        is_said_to_be_done = any("Write(notes.md)" in text for text in asked)
        return not (is_said_to_be_done and self._engine.effects)

    def _step(self, what: str) -> TurnEnded | None:
        """Count a step of the run; gives the failed end of the turn if the engine crashes here."""
        self._engine.counter.step(what)
        if not self._engine.crashes or self._engine.crashes[0].step != what:
            return None
        crash = self._engine.crashes.pop(0)
        if crash.kind is FailureKind.SESSION_LOST:
            self._engine.transcripts.clear()
        else:
            self._engine.forget_last(crash.lost)
        return TurnEnded(EndCause.FAILED, failure=TurnFailure(crash.kind, "It died."))


def _answer(transcript: Sequence[TranscriptEntry]) -> str:
    """The answer to the last prompt that asks for something."""
    asked = [each.text for each in transcript if isinstance(each, PromptEntry)]
    of_forks = ("[fork-started]", "[system] The owner wants to end this fork")
    known = [t for t in asked if t.endswith((WRITE, "hello")) or t.startswith(of_forks)]
    words = known[-1]
    if words.startswith(of_forks):
        return "I am here."
    return "Hello." if words.endswith("hello") else ANSWER


def turn_from(transcript: Sequence[TranscriptEntry], start: int) -> Sequence[TranscriptEntry]:
    """The entry of a prompt and all entries of its turn."""
    later = (n for n in range(start + 1, len(transcript)) if isinstance(transcript[n], PromptEntry))
    return transcript[start : next(later, len(transcript))]
