"""An agent engine in this process: it asks a scripted model and runs the tools that it calls.

It fulfils the contract for engines in `tests/kernel/engine/test_contract.py`. Of the built-in tools
of the real engine it has `Bash`, `Read` and `Write`; its shell knows `wait-for`, which ends once a
file is there. A call of `Write` that has written ends once no file `hold-writes` is there.
"""

from __future__ import annotations

import asyncio
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from uuid import uuid4

from devtools.doubles.engine import FakeSession

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import OllimError, SessionLost
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.engine.stream import SENTENCES
from ollim_bot.kernel.values.events import (
    AgentEvent,
    EndCause,
    FailureKind,
    SessionNamed,
    TextCompleted,
    TextStreamed,
    ThinkingStreamed,
    ToolEnded,
    ToolFailed,
    ToolRefused,
    ToolStarted,
    TurnEnded,
    TurnFailure,
    tool_label,
)
from ollim_bot.kernel.values.ports import (
    Prompt,
    SessionSpec,
    StoredSession,
    Tool,
    ToolAnswer,
    ToolCall,
    Toolset,
    Trace,
)
from ollim_bot.offline.server import (
    Block,
    CallTool,
    ChatModel,
    Fail,
    Hang,
    Message,
    ModelRequest,
    Part,
    Reply,
    Say,
    Stall,
    Think,
)

WAIT_FOR = "wait-for"
HOLD_WRITES = "hold-writes"
_REFUSED_LOGIN = (401, 403)
_BETWEEN_LOOKS = 0.02


@dataclass
class History:
    """The messages of one session, and the trace of each prompt that has an id."""

    folder: Path
    changed_at: datetime
    messages: list[Message] = field(default_factory=list)
    traces: dict[str, Trace] = field(default_factory=dict)

    @property
    def stored_text(self) -> tuple[str, int]:
        texts = [text for one in self.messages for text in one.texts]
        return (texts[0] if texts else ""), sum(len(text.encode()) for text in texts)


class ModelEngine:
    """Doubles `AgentEngine`. Its sessions survive a stop of the bot, like the real engine's."""

    def __init__(self, model: ChatModel, clock: Clock) -> None:
        self.model = model
        self.clock = clock
        self.histories: dict[SessionId, History] = {}
        self._calls = count(1)

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ModelSession]:
        before = spec.resume or spec.branch_of
        if before is not None and before not in self.histories:
            raise SessionLost(before)
        session = ModelSession(self, spec, tools)
        try:
            yield session
        finally:
            await session.interrupt()

    async def ask(self, request: ModelRequest) -> object:
        return self.model.reply(request)

    def keep(self, session: SessionId) -> None:
        """Called after each change of the session's history, which stays in memory here."""

    async def knows(self, session: SessionId) -> bool:
        return session in self.histories

    async def trace(self, session: SessionId, prompt: str) -> Trace:
        known = self.histories.get(session)
        return Trace(is_taken=False) if known is None else _trace(known, prompt)

    async def sessions(self, working_directory: Path, limit: int) -> Sequence[StoredSession]:
        found = [
            StoredSession(name, one.changed_at, *one.stored_text)
            for name, one in self.histories.items()
            if one.folder == working_directory
        ]
        return sorted(found, key=lambda one: one.changed_at, reverse=True)[:limit]

    def new_call_id(self) -> str:
        return f"call-{next(self._calls)}"


class ModelSession(FakeSession):
    """Doubles `AgentSession`."""

    def __init__(self, engine: ModelEngine, spec: SessionSpec, tools: Toolset) -> None:
        super().__init__(spec, tools)
        self._engine = engine
        self._one_at_a_time = asyncio.Lock()
        self._running: asyncio.Task[TurnEnded] | None = None

    def turn(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        return self._followed(prompt)

    def command(self, line: str) -> AsyncIterator[AgentEvent]:
        raise NotImplementedError(f"{line}: this needs the real engine.")

    async def interrupt(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def _followed(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        async with self._one_at_a_time:
            events: asyncio.Queue[AgentEvent] = asyncio.Queue()
            turn = _Turn(self._engine, self._begun(), self.spec, self.tools, events)
            assert self.spec.resume is not None
            events.put_nowait(SessionNamed(self.spec.resume))
            running = self._running = asyncio.create_task(turn.run(prompt))
            running.add_done_callback(lambda done: events.put_nowait(_end(done)))
            try:
                while not isinstance(event := await events.get(), TurnEnded):
                    yield event
                yield event
            finally:
                running.cancel()
                await asyncio.wait({running})
                self._running = None

    def _begun(self) -> History:
        known = self._engine.histories
        name = self.spec.resume or self.spec.begin or SessionId(str(uuid4()))
        if name not in known:
            origin = known[self.spec.branch_of].messages if self.spec.branch_of else ()
            now = self._engine.clock.now()
            known[name] = History(self.spec.working_directory, now, list(origin))
        self.spec = replace(self.spec, resume=name)
        return known[name]


@dataclass
class _Turn:
    """One turn: prompts, answers and calls until the model has nothing left to call."""

    engine: ModelEngine
    history: History
    spec: SessionSpec
    tools: Toolset
    events: asyncio.Queue[AgentEvent]
    said: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    async def run(self, prompt: Prompt) -> TurnEnded:
        if prompt.id is not None and _trace(self.history, prompt.id).is_taken:
            return _failed(FailureKind.OTHER)
        self._take("user", _prompt_blocks(prompt))
        self._note(prompt, is_complete=False)
        try:
            failure = await self._answered()
        finally:
            self._note(prompt, is_complete=False)
        if failure is not None:
            return failure
        self._note(prompt, is_complete=True)
        return TurnEnded(EndCause.COMPLETED, self.said[-1] if self.said else "")

    async def _answered(self) -> TurnEnded | None:
        while True:
            answer = await self.engine.ask(self._request())
            if isinstance(answer, Fail):
                kind = FailureKind.LOGIN if answer.status in _REFUSED_LOGIN else FailureKind.OTHER
                return _failed(kind)
            calls = await self._streamed(answer)
            if calls:
                results = [await self._called(name, call) for name, call in calls]
                self._take("user", results)
            elif reason := await self.tools.may_end():
                self._take("user", [_text(reason)])
            else:
                return None

    def _request(self) -> ModelRequest:
        return ModelRequest(
            model=self.spec.model or "default",
            messages=tuple(self.history.messages),
            system=self.spec.system_prompt,
            tools=(*self.tools.builtin, *_named(self.tools)),
            stream=True,
        )

    async def _streamed(self, answer: object) -> list[tuple[str, CallTool]]:
        """Emit the events of each part as it comes. Never returns for `Hang` and `Stall`."""
        match answer:
            case Reply():
                calls = [(part, self.engine.new_call_id()) for part in answer.parts]
                await self._tell(answer, calls, is_whole=True)
                self._take("assistant", [_block(part, name) for part, name in calls])
                return [(name, part) for part, name in calls if isinstance(part, CallTool)]
            case Stall(after):
                await self._tell(after, [(part, "") for part in after.parts], is_whole=False)
            case Hang():
                pass
            case _:
                raise NotImplementedError(f"{answer!r}: this needs the real engine.")
        await asyncio.Event().wait()
        raise AssertionError("Nothing ends this but a cancellation.")

    async def _tell(
        self, reply: Reply, parts: Sequence[tuple[Part, str]], *, is_whole: bool
    ) -> None:
        for number, (part, name) in enumerate(parts, 1):
            is_torn = not is_whole and number == len(parts)
            match part:
                case Think(text):
                    async for piece in _pieces(text, reply):
                        self.events.put_nowait(ThinkingStreamed(piece))
                case Say(text):
                    async for piece in _pieces(text, reply):
                        self.events.put_nowait(TextStreamed(piece))
                    if not is_torn:
                        self.said.append(text)
                        self.events.put_nowait(TextCompleted(text))
                case CallTool() if not is_torn:
                    self.events.put_nowait(ToolStarted(name, part.name, part.arguments))

    async def _called(self, name: str, call: CallTool) -> Block:
        made = ToolCall(call.name, call.arguments)
        refusal = await self.tools.gate(made)
        if refusal is not None:
            self.events.put_nowait(ToolRefused(name, call.name, refusal.reason))
            return _result(name, ToolAnswer(refusal.reason, is_error=True))
        answer = await self._done(call)
        await self.tools.after_call(made, answer.text)
        if answer.is_error:
            self.events.put_nowait(ToolFailed(name, answer.text))
        else:
            self.ended.append(tool_label(call.name, call.arguments))
            self.events.put_nowait(ToolEnded(name))
        return _result(name, answer)

    async def _done(self, call: CallTool) -> ToolAnswer:
        tool = _named(self.tools).get(call.name)
        try:
            if tool is not None:
                return await tool.run(call.arguments)
            return await _builtin(call, self.spec.working_directory)
        except (OllimError, OSError) as error:
            return ToolAnswer(str(error), is_error=True)

    def _take(self, role: str, blocks: Sequence[Block]) -> None:
        self.history.messages.append(Message(role, tuple(blocks)))
        self.history.changed_at = self.engine.clock.now()
        self._keep()

    def _note(self, prompt: Prompt, *, is_complete: bool) -> None:
        if prompt.id is not None:
            answer = "\n\n".join(self.said)
            trace = Trace(True, is_complete, answer, tuple(self.ended))
            self.history.traces[prompt.id] = trace
            self._keep()

    def _keep(self) -> None:
        assert self.spec.resume is not None
        self.engine.keep(self.spec.resume)


async def _builtin(call: CallTool, folder: Path) -> ToolAnswer:
    given = {name: str(value) for name, value in call.arguments.items()}
    match call.name:
        case "Read":
            return ToolAnswer((folder / given["file_path"]).read_text())
        case "Write":
            path = folder / given["file_path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(given["content"])
            while (folder / HOLD_WRITES).exists():  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(_BETWEEN_LOOKS)
            return ToolAnswer(f"File written: {path}")
        case "Bash":
            return await _shell(given["command"], folder)
        case name:
            raise NotImplementedError(f"{name}: this needs the real engine.")


async def _shell(command: str, folder: Path) -> ToolAnswer:
    program, _, argument = command.partition(" ")
    if program == WAIT_FOR:
        while not (folder / argument).exists():  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(_BETWEEN_LOOKS)
        return ToolAnswer("")
    process = await asyncio.create_subprocess_shell(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    return ToolAnswer(output.decode(), is_error=process.returncode != 0)


async def _pieces(text: str, reply: Reply) -> AsyncIterator[str]:
    for start in range(0, len(text), reply.chunk):
        await asyncio.sleep(reply.pace)
        yield text[start : start + reply.chunk]


def _named(tools: Toolset) -> Mapping[str, Tool]:
    return {
        f"mcp__{server}__{tool.name}": tool
        for server, offered in tools.servers.items()
        for tool in offered
    }


def _trace(history: History, prompt: str) -> Trace:
    return history.traces.get(prompt, Trace(is_taken=False))


def _end(done: asyncio.Task[TurnEnded]) -> TurnEnded:
    if done.cancelled():
        return TurnEnded(EndCause.INTERRUPTED)
    if error := done.exception():
        return TurnEnded(EndCause.FAILED, failure=TurnFailure(FailureKind.OTHER, repr(error)))
    return done.result()


def _failed(kind: FailureKind) -> TurnEnded:
    return TurnEnded(EndCause.FAILED, failure=TurnFailure(kind, SENTENCES[kind]))


def _prompt_blocks(prompt: Prompt) -> list[Block]:
    return [*(_image(one.media_type, one.data) for one in prompt.images), _text(prompt.text)]


def _image(media_type: str, data: bytes) -> Block:
    source = {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}
    return {"type": "image", "source": source}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _block(part: Part, name: str) -> Block:
    match part:
        case Say(text):
            return _text(text)
        case Think(text):
            return {"type": "thinking", "thinking": text}
        case CallTool():
            return {"type": "tool_use", "id": name, "name": part.name, "input": part.arguments}


def _result(name: str, answer: ToolAnswer) -> Block:
    content = [_text(answer.text)]
    return {
        "type": "tool_result",
        "tool_use_id": name,
        "content": content,
        "is_error": answer.is_error,
    }
