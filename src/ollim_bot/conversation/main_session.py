"""The main session: opened when it is first needed, resumed, saved, and replaced when told to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from uuid import uuid4

from ollim_bot.agent import AgentEngine, AgentSession, Prompt, SessionSpec, Toolset, Trace
from ollim_bot.domain.events import (
    AgentEvent,
    Compacted,
    SessionNamed,
    TurnEnded,
    Usage,
)
from ollim_bot.domain.inputs import Taken
from ollim_bot.domain.sessions import Cause, Session, SessionChange, SessionEvent, SessionId
from ollim_bot.errors import OllimError, SessionLost
from ollim_bot.ports import Clock
from ollim_bot.stores import Stores

_LOOKS = 3
_BETWEEN_LOOKS = 0.2
_NEWEST = 50

_logger = logging.getLogger(__name__)


class MainSession:
    """One conversation of the engine at a time, under the id that is stored.

    `spec` gives what a session is to be like now: asked before each turn, so that a change of the
    profile or of a setting reaches the agent without a new conversation. `lost` is called with the
    stored session when the engine does not know it any more.
    """

    def __init__(
        self,
        engine: AgentEngine,
        stores: Stores,
        clock: Clock,
        *,
        spec: Callable[[], Awaitable[SessionSpec]],
        tools: Toolset,
        lost: Callable[[SessionId], Awaitable[None]],
    ) -> None:
        self._engine = engine
        self._stores = stores
        self._clock = clock
        self._spec = spec
        self._tools = tools
        self._lost = lost
        self._session = Session()
        self._live: AgentSession | None = None
        self._begun: SessionId | None = None
        self._lifetime = AsyncExitStack()
        self._spent = 0.0

    @property
    def id(self) -> SessionId | None:
        """None until the engine has named it."""
        return self._session.id

    async def load(self) -> None:
        self._session = Session(await asyncio.to_thread(self._stores.session.read))

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

    async def clear(self) -> bool:
        """Leave the session for good; False if there was none."""
        session, event = self._session.cleared(self._clock.now())
        if event is not None:
            await self._log(event)
        await self.close()
        await self._keep(session)
        return event is not None

    async def swap(self, session_id: SessionId) -> None:
        """Make another session the main one; the next turn opens it."""
        await self._become(session_id, Cause.RESUMED)
        await self.close()

    async def adopt(self, session_id: SessionId) -> None:
        """Go on with a session that was begun, but was not stored before a crash."""
        if self._session.id is None:
            await self._become(session_id, Cause.NAMED)

    async def forget(self) -> None:
        """The engine has lost the session: the next turn begins a new one."""
        lost = self._session.id
        _logger.warning("The engine does not know session %s any more", lost)
        await self.close()
        if lost is not None:
            await self._lost(lost)
        await self._keep(Session())

    async def close(self) -> None:
        """End the engine's process; the session can be opened again."""
        self._live = self._begun = None
        self._spent = 0.0
        lifetime, self._lifetime = self._lifetime, AsyncExitStack()
        await lifetime.aclose()

    async def _opened(self, spec: SessionSpec) -> AgentSession:
        if self._session.id is not None:
            try:
                return await self._enter(replace(spec, resume=self._session.id))
            except SessionLost:
                await self.forget()
        self._begun = SessionId(str(uuid4()))
        return await self._enter(replace(spec, begin=self._begun))

    async def _enter(self, spec: SessionSpec) -> AgentSession:
        return await self._lifetime.enter_async_context(self._engine.open(spec, self._tools))

    async def _noted(self, event: AgentEvent) -> AgentEvent:
        match event:
            case SessionNamed(session_id):
                await self._become(session_id, Cause.NAMED)
            case Compacted(session_id):
                await self._become(session_id, Cause.COMPACTED)
            case TurnEnded():
                await self._keep(self._session)
        return event

    async def _become(self, session_id: SessionId, cause: Cause) -> None:
        """Logged first: a crash in between may not take an event out of the history."""
        session, event = self._session.after(session_id, cause, self._clock.now())
        if event is not None and not await self._was_created(event):
            await self._log(event)
        await self._keep(session)

    async def _was_created(self, event: SessionEvent) -> bool:
        """Whether the history has it already, from before a crash."""
        if event.event is not SessionChange.CREATED:
            return False
        newest = (await asyncio.to_thread(self._stores.session_history.tail, _NEWEST)).entries
        return any((old.session_id, old.event) == (event.session_id, event.event) for old in newest)

    async def _keep(self, session: Session) -> None:
        self._session = session
        await asyncio.to_thread(self._stores.session.transact, lambda _: (session.id, None))

    async def _log(self, event: SessionEvent) -> None:
        await asyncio.to_thread(self._stores.session_history.append, event)
