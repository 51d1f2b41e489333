"""A session of the engine that is opened on first use and kept open between turns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import datetime

from ollim_bot.domain.chat import ChatMessage, TurnId
from ollim_bot.domain.events import AgentEvent, Compacted, SessionNamed, Usage
from ollim_bot.domain.inbox import Taken
from ollim_bot.domain.runs import Run
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.updates import PendingUpdates
from ollim_bot.domain.usage import UsageKind, UsageRow, usage_rows
from ollim_bot.errors import OllimError
from ollim_bot.ports import AgentEngine, AgentSession, Clock, Prompt, SessionSpec, Toolset, Trace
from ollim_bot.store.database import Step
from ollim_bot.store.messages import Sender
from ollim_bot.store.transaction import Transaction

_LOOKS = 3
_BETWEEN_LOOKS = 0.2

Spec = Callable[[], Awaitable[SessionSpec]]


class ChatSession(ABC):
    """Runs one turn at a time.

    `spec` is called before each turn, so that changes of the profile and the settings reach the
    agent without a new conversation.
    """

    in_fork: bool
    header: str

    def __init__(self, engine: AgentEngine, clock: Clock, *, spec: Spec, tools: Toolset) -> None:
        self._engine = engine
        self._clock = clock
        self._spec = spec
        self._tools = tools
        self._live: AgentSession | None = None
        self._begun: SessionId | None = None
        self._lifetime = AsyncExitStack()
        # What the rows of earlier turns have of the usage of the opened session.
        self.recorded = Usage()

    @property
    @abstractmethod
    def id(self) -> SessionId | None:
        """None until the engine has named it."""

    @property
    def resumed_at(self) -> datetime | None:
        """When the message was sent that the first prompt replies to; None if to none."""
        return None

    @abstractmethod
    def run_at(self, now: datetime, session: SessionId) -> Run:
        """The `Run` of a new turn."""

    @abstractmethod
    def claim(self, tx: Transaction) -> PendingUpdates:
        """Take the updates that the prompt of the turn will show."""

    @abstractmethod
    def settle(self, tx: Transaction, claim: PendingUpdates, *, is_taken: bool) -> None:
        """Confirm the claimed updates, or return them if the engine did not take the prompt.

        Repeatable.
        """

    @abstractmethod
    def adopt(self, tx: Transaction, session_id: SessionId, now: datetime) -> None:
        """Continue with a session that was begun but not stored before a crash."""

    @abstractmethod
    def forgetting(self) -> Step[None]:
        """The step after the engine has lost the session: the next turn begins a new one."""

    @abstractmethod
    def answering(self, tx: Transaction, message: ChatMessage) -> Sender:
        """Note that an answer is posted. Returns who says it, so that a reply finds them."""

    @abstractmethod
    async def touch(self) -> None:
        """Note that the owner said something in the session."""

    @abstractmethod
    def rest(self, tx: Transaction, now: datetime) -> None:
        """Note that a turn has ended."""

    @abstractmethod
    async def _opened(self, spec: SessionSpec) -> AgentSession: ...

    @abstractmethod
    async def _named(self, session_id: SessionId) -> None: ...

    @abstractmethod
    async def _compacted(self, session_id: SessionId) -> None: ...

    async def open(self) -> SessionId:
        """Open the session if needed, and return the id that it has or will have.

        Raises `EngineError` if the engine cannot be started.
        """
        spec = await self._spec()
        if self._live is None:
            self._live = await self._opened(spec)
        await self._live.reconfigure(
            model=spec.model,
            thinking=spec.thinking,
            system_prompt=spec.system_prompt,
            skills=spec.skills,
        )
        return self._live.id or self._begun or SessionId("")

    async def be_ready(self) -> None:
        """Open the session ahead of the next turn; a failure shows in that turn."""
        if self._live is None:
            with suppress(OllimError):
                await self.open()

    async def turn(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        """Run a turn of the opened session. The last event is the only `TurnEnded`."""
        assert self._live is not None
        async for event in self._live.turn(prompt):
            yield await self._noted(event)

    async def command(self, line: str) -> AsyncIterator[AgentEvent]:
        """Run an engine command in the opened session."""
        assert self._live is not None
        async for event in self._live.command(line):
            yield await self._noted(event)

    async def interrupt(self) -> None:
        if self._live is not None:
            await self._live.interrupt()

    async def trace(self, taken: Taken) -> Trace:
        """What the engine has recorded of a turn."""
        if taken.session is None:
            return Trace(is_taken=False)
        return await self._engine.trace(taken.session, taken.prompt)

    async def has_taken(self, taken: Taken) -> bool:
        """Whether the engine took the prompt; waits briefly for the engine's record."""
        for _ in range(_LOOKS):
            if (await self.trace(taken)).is_taken:
                return True
            await self._clock.sleep(_BETWEEN_LOOKS)
        return False

    def usage_rows(
        self, usage: Usage, at: datetime, turn: TurnId, occurrence: str = ""
    ) -> list[UsageRow]:
        """What `usage` has that no row has; it counts from the opening of the session.

        After the rows are committed, `recorded` has to be the new reading.
        """
        kind = UsageKind.FORK if self.in_fork else UsageKind.TURN
        return usage_rows(usage, self.recorded, at, kind, turn=turn, occurrence=occurrence)

    async def close(self) -> None:
        """End the engine's process; the session can be opened again."""
        self._live = self._begun = None
        self.recorded = Usage()
        lifetime, self._lifetime = self._lifetime, AsyncExitStack()
        await lifetime.aclose()

    async def _enter(self, spec: SessionSpec) -> AgentSession:
        return await self._lifetime.enter_async_context(self._engine.open(spec, self._tools))

    async def _noted(self, event: AgentEvent) -> AgentEvent:
        match event:
            case SessionNamed(session_id):
                await self._named(session_id)
            case Compacted(session_id):
                await self._compacted(session_id)
        return event
