"""The seam to the agent: sessions of an engine, and the tools it is handed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from ollim_bot.domain.events import AgentEvent
from ollim_bot.domain.runtime_config import Thinking
from ollim_bot.domain.sessions import SessionId


@dataclass(frozen=True, slots=True)
class Image:
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Prompt:
    """The text is taken literally: the engine runs no command and opens no file that it names.

    `id`, a UUID, marks the prompt in the engine's record of the session, where
    `AgentEngine.trace` finds it. A turn whose id stands there already fails at once.
    """

    text: str
    images: tuple[Image, ...] = ()
    id: str | None = None


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """`resume` continues a session; without it a new one begins, with the id `begin` if given.

    A new one starts with the history of `branch_of`, if given, and leaves that session untouched.
    `occurrence` is the id of the background run that the session is for; empty in the conversation.
    """

    system_prompt: str
    working_directory: Path
    resume: SessionId | None = None
    begin: SessionId | None = None
    branch_of: SessionId | None = None
    model: str | None = None
    thinking: Thinking = "off"
    readable: tuple[Path, ...] = ()
    occurrence: str = ""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """`schema` is the JSON Schema of the arguments, which are checked before `run` is called."""

    name: str
    description: str
    schema: Mapping[str, object]
    run: Callable[[Mapping[str, object]], Awaitable[ToolAnswer]]


@dataclass(frozen=True, slots=True)
class ToolCall:
    tool: str
    arguments: Mapping[str, object]
    by_subagent: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the model is told instead of the call being made."""

    reason: str


# Asked before a call is made: None lets it through.
Gate = Callable[[ToolCall], Awaitable[Refusal | None]]


async def _let_through(_: ToolCall) -> Refusal | None:
    return None


async def _let_end() -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Toolset:
    """What the agent may do in one session: closures over whatever they need.

    `gate` is asked before every call, of our tools and of the engine's own; if it raises, the call
    is refused.
    `may_end` is asked when a turn is about to end; a text sends the agent back with that reason.
    """

    servers: Mapping[str, Sequence[Tool]] = field(default_factory=dict)
    builtin: tuple[str, ...] = ()
    gate: Gate = _let_through
    may_end: Callable[[], Awaitable[str | None]] = _let_end


class AgentSession(Protocol):
    """One conversation of the engine. One turn at a time."""

    @property
    def id(self) -> SessionId | None:
        """None until the engine has named the session."""

    def turn(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        """Ends with exactly one `TurnEnded`, whatever happens to the engine."""

    def command(self, line: str) -> AsyncIterator[AgentEvent]:
        """A command of the engine itself, such as `/compact keep names`."""

    async def interrupt(self) -> None:
        """End the running turn soon; harmless when there is none."""

    async def reconfigure(
        self, *, model: str | None, thinking: Thinking, system_prompt: str
    ) -> None:
        """From the next turn on, in the same session. Without a difference it costs nothing."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What the engine's own record of a session knows of a prompt.

    `is_taken`: the engine has got it. `answer` is what was said to it so far, or all of it if
    `is_complete`.
    """

    is_taken: bool
    is_complete: bool = False
    answer: str = ""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """`first_prompt` is as it was sent, with the time and all else before the owner's words."""

    id: SessionId
    changed_at: datetime
    first_prompt: str
    size: int


class AgentEngine(Protocol):
    def open(self, spec: SessionSpec, tools: Toolset) -> AbstractAsyncContextManager[AgentSession]:
        """Raises `SessionLost` if the session to resume is not known any more."""

    async def knows(self, session: SessionId) -> bool:
        """Whether a session could be resumed, or branched off from."""

    async def trace(self, session: SessionId, prompt: str) -> Trace:
        """For after a crash. A session that is not known has taken nothing."""

    async def sessions(self, working_directory: Path, limit: int) -> Sequence[StoredSession]:
        """Those that can be resumed, the newest first."""
