"""One conversation of the Claude engine."""

from __future__ import annotations

import asyncio
import json
import os
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from claude_agent_sdk import AgentDefinition, ClaudeAgentOptions
from claude_agent_sdk.types import McpServerConfig, ThinkingConfig

from ollim_bot.kernel.base.errors import EngineError, SessionLost
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.engine.bridge import Programs, definitions, hooks, in_process_servers
from ollim_bot.kernel.engine.engine_connection import Connection, EngineExited
from ollim_bot.kernel.engine.stream import CostCounter, TurnReader, failure
from ollim_bot.kernel.values.agent_caller import CALLED_BY, CONVERSATION
from ollim_bot.kernel.values.events import (
    AgentEvent,
    Compacted,
    EndCause,
    FailureKind,
    SessionNamed,
    TurnEnded,
    UsageReported,
)
from ollim_bot.kernel.values.ports import OfferedSkill, Prompt, SessionSpec, Toolset
from ollim_bot.kernel.values.provider import CLAUDE, Provider
from ollim_bot.kernel.values.runs import Subagent, Subagents
from ollim_bot.kernel.values.runtime_config import Thinking
from ollim_bot.kernel.values.usage import Usage

# One line of the engine's output is one message; an answer may be long.
_LONGEST_MESSAGE = 16 * 1024 * 1024

_SETTINGS = {
    # The command lines of a skill would run without a hook.
    "disableSkillShellExecution": True,
    "attribution": {"commit": "", "pr": ""},
}

# A second check behind the gate: these rules hold even if a hook allows a call.
_NEVER = (
    "Read(./state/**)",
    "Read(./.env*)",
    "Read(./.git/**)",
    "Read(./mcp.json)",
    "Edit(./state/**)",
    "Edit(./.env*)",
    "Edit(./.git/**)",
    "Edit(./.claude/**)",
    "Edit(./tool-policy.yaml)",
    "Edit(./mcp.json)",
)

_NO_RECORD: Mapping[str, str | None] = {"no-session-persistence": None}


def options_for(
    spec: SessionSpec,
    toolset: Toolset,
    *,
    prompt: Path,
    environment: Mapping[str, str],
    refused: MutableMapping[str, str],
    cli: Path | None = None,
) -> ClaudeAgentOptions:
    """The options of a process. No rule allows a tool in advance: each call needs the gate.

    `prompt` is the file with the system prompt, which the engine reads once, at the start.
    """
    servers: dict[str, McpServerConfig] = {**in_process_servers(toolset)}
    subagents = spec.subagents or Subagents()
    variables = {**environment, CALLED_BY: spec.occurrence or CONVERSATION}
    programs = Programs(variables, spec.working_directory)
    thinking: ThinkingConfig = {"type": "adaptive", "display": "summarized"}
    if spec.thinking == "off":
        thinking = {"type": "disabled"}
    elif isinstance(spec.thinking, int):
        tokens = spec.thinking
        thinking = {"type": "enabled", "budget_tokens": tokens, "display": "summarized"}
    # The engine itself reads the files of subagents; a rule keeps it from offering one.
    hidden = (f"Agent({name})" for name in subagents.hidden)
    return ClaudeAgentOptions(
        # Without a snapshot, a resumed session gets the present prompt. The SDK cannot say so
        # together with a file, but the preset can, and the file replaces the preset.
        system_prompt={"type": "preset", "preset": "claude_code", "snapshot": False},
        extra_args={"system-prompt-file": str(prompt), **(_NO_RECORD if spec.is_bare else {})},
        cwd=spec.working_directory,
        add_dirs=list(spec.readable),
        resume=spec.resume or spec.branch_of,
        fork_session=spec.resume is None and spec.branch_of is not None,
        session_id=None if spec.resume else spec.begin,
        model=spec.model,
        thinking=thinking,
        tools=list(toolset.builtin),
        skills=[skill.name for skill in spec.skills],
        mcp_servers=servers,
        strict_mcp_config=True,
        hooks=hooks(toolset, refused, programs),
        permission_mode="dontAsk",
        setting_sources=[] if spec.is_bare else ["project"],
        settings=json.dumps({**_SETTINGS, "permissions": {"deny": [*_NEVER, *hidden]}}),
        agents={name: _definition(one) for name, one in subagents.known.items()},
        include_partial_messages=True,
        max_buffer_size=_LONGEST_MESSAGE,
        # The SDK adds these to the whole environment of the bot. An empty one is left out later.
        env={**dict.fromkeys(os.environ, ""), **variables},
        cli_path=cli,
    )


def _definition(subagent: Subagent) -> AgentDefinition:
    """A definition that takes precedence over the file of the same name.

    It has only the names of tools, which the engine lists in every request; the gate limits what
    they are called with.
    """
    names = None
    if subagent.tools is not None:
        names = [*dict.fromkeys(each.tool for each in subagent.tools)]
    model = subagent.model or "inherit"
    return AgentDefinition(subagent.description, subagent.instructions, names, model=model)


# How long an interrupted turn may take to end before its process is closed.
_INTERRUPT_SECONDS = 5.0


class ClaudeSession:
    """`start` starts a process; `refused` has the reasons of refused calls, by their ids.

    A process that was started with other `tools` than are there now is replaced before the next
    turn.
    """

    def __init__(
        self,
        spec: SessionSpec,
        start: Callable[[SessionSpec], Awaitable[Connection]],
        tools: Toolset,
        refused: Mapping[str, str],
        provider: Provider = CLAUDE,
        answered: Callable[[], Awaitable[None]] | None = None,
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
        self._tools = tools
        self._offered_at_start: Sequence[object] = ()
        self._is_outdated = False
        self._is_closed = False
        self._one_at_a_time = asyncio.Lock()
        self._turn: EngineTurn | None = None
        self._is_interrupted = False

    @staticmethod
    async def process(
        spec: SessionSpec,
        tools: Toolset,
        refused: MutableMapping[str, str],
        prompt: Path,
        environment: Mapping[str, str],
        cli: Path | None,
        spent_before: Usage,
    ) -> Connection:
        """A process of the engine, as `options_for` describes it. Raises as `Connection.open`."""
        given = options_for(
            spec, tools, prompt=prompt, environment=environment, refused=refused, cli=cli
        )
        return await Connection.open(given, spent_before)

    @property
    def id(self) -> SessionId | None:
        return self._spec.resume

    @property
    def usage(self) -> Usage:
        return self._usage

    def turn(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        named = {} if prompt.id is None else {"uuid": prompt.id}
        text = [{"type": "text", "text": prompt.text}] if prompt.text or not prompt.images else []
        images = [
            {
                "type": "image",
                "source": {
                    "type": "base64",
                    "media_type": image.media_type,
                    "data": b64encode(image.data).decode("ascii"),
                },
            }
            for image in prompt.images
        ]
        return self._run({**_user_message([*images, *text], is_verbatim=True), **named})

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
        self._offered_at_start = definitions(self._tools)
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
                        cause = event.cause if isinstance(event, TurnEnded) else None
                        if cause is EndCause.COMPLETED and self._answered is not None:
                            await self._answered()
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
        except EngineError as error:
            is_lost = isinstance(error, SessionLost)
            kind = FailureKind.SESSION_LOST if is_lost else FailureKind.ENGINE_DIED
            return TurnEnded(EndCause.FAILED, failure=failure(kind), usage=self._usage)
        counted = CostCounter(self._used_before, connection.spent_before)
        reader = TurnReader(self._refused, self._usage, counted, self._provider)
        return EngineTurn(connection, reader)

    async def _connected(self) -> Connection:
        if self._is_closed:
            raise EngineError("The session is closed.")
        is_outdated = self._is_outdated or definitions(self._tools) != self._offered_at_start
        if is_outdated or self._connection is None or not self._connection.is_alive:
            await self._disconnect()
            return await self.connect()
        self._connection.drain()
        return self._connection

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
