"""One conversation of the Claude engine."""

from __future__ import annotations

import asyncio
import os
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from ollim_bot.domain.events import (
    AgentEvent,
    Compacted,
    EndCause,
    FailureKind,
    SessionNamed,
    TurnEnded,
    Usage,
    UsageReported,
)
from ollim_bot.domain.provider import CLAUDE, Provider
from ollim_bot.domain.runtime_config import Thinking
from ollim_bot.domain.sessions import SessionId
from ollim_bot.engine.bridge import definitions
from ollim_bot.engine.connection import Connection, EngineExited
from ollim_bot.engine.options import options_for
from ollim_bot.engine.stream import CostCounter, TurnReader, failure
from ollim_bot.engine.transcripts import Transcripts
from ollim_bot.errors import EngineError, SessionLost
from ollim_bot.ports import Image, OfferedSkill, Prompt, SessionSpec, StoredSession, Toolset, Trace

# How long an interrupted turn may take to end before its process is closed.
_INTERRUPT_SECONDS = 5.0
Answered = Callable[[], Awaitable[None]]


class ClaudeSession:
    """`start` starts a process; `refused` has the reasons of refused calls, by their ids.

    `offered` says what tools are there now: a process that was started with others is replaced
    before the next turn.
    """

    def __init__(
        self,
        spec: SessionSpec,
        start: Callable[[SessionSpec], Awaitable[Connection]],
        refused: Mapping[str, str],
        provider: Provider = CLAUDE,
        answered: Answered | None = None,
        offered: Callable[[], Sequence[object]] = tuple,
    ) -> None:
        self._spec = spec
        self._answered = answered
        self._provider = provider
        self._start = start
        self._refused = refused
        # The last session id of which the engine certainly has a record.
        self._stored = spec.resume
        self._usage = Usage()
        # What the earlier processes of this session have used.
        self._used_before = Usage()
        self._connection: Connection | None = None
        self._offered = offered
        self._offered_at_start: Sequence[object] = ()
        self._is_outdated = False
        self._is_closed = False
        self._one_at_a_time = asyncio.Lock()
        self._turn: EngineTurn | None = None
        self._is_interrupted = False

    @property
    def id(self) -> SessionId | None:
        return self._spec.resume

    @property
    def usage(self) -> Usage:
        return self._usage

    def turn(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        named = {} if prompt.id is None else {"uuid": prompt.id}
        text = [{"type": "text", "text": prompt.text}] if prompt.text or not prompt.images else []
        return self._run(
            {**_user_message([*map(_image, prompt.images), *text], is_verbatim=True), **named}
        )

    def command(self, line: str) -> AsyncIterator[AgentEvent]:
        return self._run(_user_message(line, is_verbatim=False))

    async def interrupt(self) -> None:
        self._is_interrupted = True
        if self._turn is not None:
            await self._turn.interrupt()

    async def reconfigure(
        self,
        *,
        model: str | None,
        thinking: Thinking,
        system_prompt: str,
        skills: tuple[OfferedSkill, ...],
    ) -> None:
        """Apply the change in a new process: in place, it would appear in the conversation."""
        spec = replace(
            self._spec, model=model, thinking=thinking, system_prompt=system_prompt, skills=skills
        )
        self._is_outdated |= spec != self._spec
        self._spec = spec

    async def connect(self) -> Connection:
        """Start a process. Raises `SessionLost`, or `EngineError` if no engine can be started."""
        self._is_outdated = False
        self._offered_at_start = self._offered()
        self._used_before = self._usage
        try:
            self._connection = await self._start(self._spec)
        except SessionLost:
            if self._spec.resume == self._stored:
                raise
            # The process died before it had recorded anything of its new session.
            self._spec = replace(self._spec, resume=self._stored)
            self._connection = await self._start(self._spec)
        return self._connection

    async def close(self) -> None:
        """End the running turn, and the process."""
        self._is_closed = True
        await self.interrupt()
        await self._disconnect()

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _run(self, message: Mapping[str, Any]) -> AsyncIterator[AgentEvent]:
        async with self._one_at_a_time:
            self._is_interrupted = False
            turn = await self._begun(message)
            if isinstance(turn, TurnEnded):
                yield turn
                return
            self._turn = turn
            try:
                if self._is_interrupted:
                    await turn.interrupt()
                while not turn.is_over:
                    for event in await turn.events():
                        self._note(event)
                        await self._tell(event)
                        yield event
            finally:
                self._turn = None
                for unread in await turn.finish():
                    self._note(unread)

    async def _begun(self, message: Mapping[str, Any]) -> EngineTurn | TurnEnded:
        try:
            connection = await self._connected()
            if self._is_interrupted:
                return TurnEnded(EndCause.INTERRUPTED, usage=self._usage)
            await connection.send(message)
        except SessionLost:
            return self._failed(FailureKind.SESSION_LOST)
        except EngineError:
            return self._failed(FailureKind.ENGINE_DIED)
        before, restored = self._used_before, connection.spent_before
        counted = CostCounter(
            before.cost_usd, restored.cost_usd, before.by_model, restored.by_model
        )
        reader = TurnReader(self._refused, self._usage, counted, self._provider)
        return EngineTurn(connection, reader)

    async def _connected(self) -> Connection:
        if self._is_closed:
            raise EngineError("The session is closed.")
        is_outdated = self._is_outdated or self._offered() != self._offered_at_start
        if is_outdated or self._connection is None or not self._connection.is_alive:
            await self._disconnect()
            return await self.connect()
        self._connection.drain()
        return self._connection

    def _failed(self, kind: FailureKind) -> TurnEnded:
        return TurnEnded(EndCause.FAILED, failure=failure(kind), usage=self._usage)

    async def _tell(self, event: AgentEvent) -> None:
        is_answer = isinstance(event, TurnEnded) and event.cause is EndCause.COMPLETED
        if is_answer and self._answered is not None:
            await self._answered()

    def _note(self, event: AgentEvent) -> None:
        match event:
            case SessionNamed(session_id) | Compacted(session_id):
                self._spec = replace(self._spec, resume=session_id)
            case UsageReported(usage):
                self._usage = usage
            case TurnEnded(usage=usage, failure=told):
                self._usage = usage
                if told is None or told.kind is not FailureKind.ENGINE_DIED:
                    self._stored = self._spec.resume


class EngineTurn:
    """One turn, which ends by itself, by `interrupt`, or with its process."""

    def __init__(self, connection: Connection, reader: TurnReader) -> None:
        self._connection = connection
        self._reader = reader
        self._is_interrupted = False
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        return self._reader.is_over

    async def events(self) -> list[AgentEvent]:
        """The events of the next message."""
        message = await self._connection.messages.get()
        if isinstance(message, EngineExited):
            return list(self._reader.died(interrupted=self._is_interrupted))
        return list(self._reader.read(message))

    async def interrupt(self) -> None:
        if self.is_over or self._is_interrupted:
            return
        self._is_interrupted = True
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(_INTERRUPT_SECONDS, self._connection.begin_close)
        await self._connection.interrupt()

    async def finish(self) -> list[AgentEvent]:
        """End the turn in any case; returns the events that were not read."""
        unread: list[AgentEvent] = []
        try:
            await self.interrupt()
            while not self.is_over:
                unread += await self.events()
        except BaseException:  # also if cancelled: its messages must not reach the next turn
            self._connection.begin_close()
            raise
        finally:
            if self._alarm is not None:
                self._alarm.cancel()
        return unread


def _user_message(content: object, *, is_verbatim: bool) -> dict[str, Any]:
    return {
        "type": "user",
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": None,
        "client_composed": is_verbatim,
    }


def _image(image: Image) -> dict[str, Any]:
    data = b64encode(image.data).decode("ascii")
    source = {"type": "base64", "media_type": image.media_type, "data": data}
    return {"type": "image", "source": source}


_PRIVATE_PREFIX = "for-the-engine-"
_LONGEST_PRIVATE_SECONDS = 3600.0


class ClaudeEngine:
    """`environment` is that of the program; `cli` is the program to start.

    `provider` is the service that it then asks; costs and failures are reported for that one.
    `answered` is called after each completed answer. `folder` is private: prompts are files there
    for a moment, since others can read a command line. `zone` names the owner's time zone as of
    now, which a new process gets.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        folder: Path,
        *,
        cli: Path | None = None,
        provider: Provider = CLAUDE,
        answered: Answered | None = None,
        zone: Callable[[], str] | None = None,
    ) -> None:
        self._environment = environment
        self._folder = folder
        self._cli = cli
        self._provider = provider
        self._answered = answered
        self._zone = zone
        self._transcripts = Transcripts(environment)

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ClaudeSession]:
        refused: dict[str, str] = {}
        start = partial(self._connect, tools, refused)
        session = ClaudeSession(
            spec, start, refused, self._provider, self._answered, partial(definitions, tools)
        )
        try:
            await session.connect()
            yield session
        finally:
            await session.close()

    async def knows(self, session: SessionId) -> bool:
        return await asyncio.to_thread(self._transcripts.find, session) is not None

    async def trace(self, session: SessionId, prompt: str) -> Trace:
        return await asyncio.to_thread(self._transcripts.trace, session, prompt)

    async def sessions(self, working_directory: Path, limit: int) -> Sequence[StoredSession]:
        return await asyncio.to_thread(self._transcripts.sessions, working_directory, limit)

    async def _connect(
        self, tools: Toolset, refused: dict[str, str], spec: SessionSpec
    ) -> Connection:
        """Resume the session with the id `begin` if it exists already."""
        start = partial(self._start, tools, refused)
        if spec.resume is None and spec.begin is not None and await self.knows(spec.begin):
            try:
                return await start(replace(spec, resume=spec.begin))
            except SessionLost:
                # An empty record cannot be resumed, but the engine does not reuse its id either.
                return await start(replace(spec, begin=None))
        return await start(spec)

    async def _start(
        self, tools: Toolset, refused: dict[str, str], spec: SessionSpec
    ) -> Connection:
        earlier, spent_before = spec.resume or spec.branch_of, Usage()
        if earlier is not None:
            await asyncio.to_thread(self._transcripts.repair, earlier)
            spent_before = await asyncio.to_thread(self._transcripts.spent, earlier)
        zone = {"TZ": self._zone()} if self._zone is not None else {}
        async with private_file(self._folder, spec.system_prompt) as prompt:
            options = options_for(
                spec,
                tools,
                prompt=prompt,
                environment={**self._environment, **zone},
                refused=refused,
                cli=self._cli,
            )
            return await Connection.open(options, spent_before)


@asynccontextmanager
async def private_file(folder: Path, text: str) -> AsyncIterator[Path]:
    """A file that only we can read, removed when the context is left. Raises `EngineError`."""
    path = folder / f"{_PRIVATE_PREFIX}{uuid4().hex}"
    try:
        await asyncio.to_thread(_write, path, text)
    except OSError as refused:
        reason = f"{folder}: {refused.strerror}."
        raise EngineError(f"The engine could not be started: {reason}") from refused
    try:
        yield path
    finally:
        await asyncio.to_thread(_remove, path)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Remove files that a crash left behind.
    longest_ago = time.time() - _LONGEST_PRIVATE_SECONDS
    for stale in path.parent.glob(f"{_PRIVATE_PREFIX}*"):
        with suppress(OSError):
            if stale.stat().st_mtime < longest_ago:
                stale.unlink()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "wb") as file:
        file.write(text.encode("utf-8", "replace"))


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
