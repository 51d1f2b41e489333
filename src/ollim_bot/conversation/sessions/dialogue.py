"""A session of the engine that is spoken with: opened when it is first needed, and kept open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import datetime

from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.events import AgentEvent, Compacted, SessionNamed, Usage
from ollim_bot.domain.inbox import Taken
from ollim_bot.domain.runs import Run
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.updates import PendingUpdates
from ollim_bot.errors import OllimError
from ollim_bot.ports import AgentEngine, AgentSession, Clock, Prompt, SessionSpec, Toolset, Trace
from ollim_bot.store.database import Step
from ollim_bot.store.messages import Sender
from ollim_bot.store.transaction import Transaction

_LOOKS = 3
_BETWEEN_LOOKS = 0.2

Spec = Callable[[], Awaitable[SessionSpec]]


class ChatSession(ABC):
    """One turn at a time.

    `spec` gives what a session is to be like now: asked before each turn, so that a change of the
    profile or of a setting reaches the agent without a new conversation.
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
        self._spent = 0.0

    @property
    @abstractmethod
    def id(self) -> SessionId | None:
        """None until the engine has named it."""

    @property
    def resumed_at(self) -> datetime | None:
        """Of what the first prompt goes on from, where that is an earlier session."""
        return None

    @abstractmethod
    def run_at(self, now: datetime, session: SessionId) -> Run:
        """Each turn is a run of its own."""

    @abstractmethod
    def claim(self, tx: Transaction) -> PendingUpdates:
        """The updates that the prompt of the turn shows that is being taken."""

    @abstractmethod
    def settle(self, tx: Transaction, claim: PendingUpdates, *, is_taken: bool) -> None:
        """The prompt that showed them was taken by the engine, or was not; repeatable."""

    @abstractmethod
    def adopt(self, tx: Transaction, session_id: SessionId, now: datetime) -> None:
        """Go on with a session that was begun, but was not stored before a crash."""

    @abstractmethod
    def forgetting(self) -> Step[None]:
        """The step after the engine has lost the session: the next turn begins a new one."""

    @abstractmethod
    def answering(self, tx: Transaction, message: ChatMessage) -> Sender:
        """Note that an answer is posted. Returns who says it, so that a reply finds them."""

    @abstractmethod
    async def touch(self) -> None:
        """The owner has said something in it."""

    @abstractmethod
    def rest(self, tx: Transaction, now: datetime) -> None:
        """A turn has ended."""

    @abstractmethod
    async def _opened(self, spec: SessionSpec) -> AgentSession: ...

    @abstractmethod
    async def _named(self, session_id: SessionId) -> None: ...

    @abstractmethod
    async def _compacted(self, session_id: SessionId) -> None: ...

    async def open(self) -> SessionId:
        """Be ready for a turn, and give the id that the session has or will have.

        Raises `EngineError` if no engine can be started.
        """
        spec = await self._spec()
        if self._live is None:
            self._live = await self._opened(spec)
        await self._live.reconfigure(
            model=spec.model, thinking=spec.thinking, system_prompt=spec.system_prompt
        )
        return self._live.id or self._begun or SessionId("")

    async def be_ready(self) -> None:
        """Open it beforehand, so that the next turn need not wait; a failure is told by that."""
        if self._live is None:
            with suppress(OllimError):
                await self.open()

    async def turn(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        """After `open`. Ends with one `TurnEnded`."""
        assert self._live is not None
        async for event in self._live.turn(prompt):
            yield await self._noted(event)

    async def command(self, line: str) -> AsyncIterator[AgentEvent]:
        """After `open`."""
        assert self._live is not None
        async for event in self._live.command(line):
            yield await self._noted(event)

    async def interrupt(self) -> None:
        if self._live is not None:
            await self._live.interrupt()

    async def trace(self, taken: Taken) -> Trace:
        """What the engine still knows of a turn that was begun."""
        if taken.session is None:
            return Trace(is_taken=False)
        return await self._engine.trace(taken.session, taken.prompt)

    async def has_taken(self, taken: Taken) -> bool:
        """For a turn that has just ended: its record may be a moment behind."""
        for _ in range(_LOOKS):
            if (await self.trace(taken)).is_taken:
                return True
            await self._clock.sleep(_BETWEEN_LOOKS)
        return False

    def cost_since_last(self, usage: Usage) -> float:
        """What was spent since this was asked last; the engine counts from its opening."""
        cost = max(0.0, usage.cost_usd - self._spent)
        self._spent += cost
        return cost

    async def close(self) -> None:
        """End the engine's process; the session can be opened again."""
        self._live = self._begun = None
        self._spent = 0.0
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
