"""The main session of the conversation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from ollim_bot.conversation.sessions.dialogue import ChatSession, Spec
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.inbox import InboxRow, Taken
from ollim_bot.domain.runs import Run, RunKind, RunPolicy
from ollim_bot.domain.sessions import Cause, Session, SessionChange, SessionEvent, SessionId
from ollim_bot.domain.updates import PendingUpdates, pop_pending_updates
from ollim_bot.errors import SessionLost
from ollim_bot.ports import AgentEngine, AgentSession, Clock, Log, SessionSpec, Toolset
from ollim_bot.prompts.context import FOR_MAIN
from ollim_bot.store.messages import MAIN, Sender
from ollim_bot.stores import Stores
from ollim_bot.tools.registry import MAIN_TOOLS

# A session begins once; but it may be left and come back to, so only the last word counts there.
_LOOKED_AT = {SessionChange.SWAPPED: 1}
_NEWEST = 50


async def log_once(stores: Stores, event: SessionEvent) -> None:
    """Unless the history has it already, from before a crash."""
    number = _LOOKED_AT.get(event.event, _NEWEST)
    newest = (await asyncio.to_thread(stores.session_history.tail, number)).entries
    if not any((old.session_id, old.event) == (event.session_id, event.event) for old in newest):
        await asyncio.to_thread(stores.session_history.append, event)


_POLICY = RunPolicy(RunKind.MAIN, MAIN_TOOLS)

_logger = logging.getLogger(__name__)


def main_run(now: datetime, session: SessionId | None = None) -> Run:
    return Run(_POLICY, now, session=session)


class MainSession(ChatSession):
    """One conversation of the engine at a time, under the id that is stored.

    `lost` is called with the stored session when the engine does not know it any more.
    """

    in_fork = False
    header = FOR_MAIN

    def __init__(
        self,
        engine: AgentEngine,
        stores: Stores,
        clock: Clock,
        *,
        spec: Spec,
        tools: Toolset,
        lost: Callable[[SessionId], Awaitable[None]],
    ) -> None:
        super().__init__(engine, clock, spec=spec, tools=tools)
        self._stores = stores
        self._lost = lost
        self._session = Session()

    @property
    def id(self) -> SessionId | None:
        return self._session.id

    async def load(self) -> None:
        self._session = Session(await asyncio.to_thread(self._stores.session.read))

    def run_at(self, now: datetime, session: SessionId) -> Run:
        return main_run(now, session)

    def take(self, log: Log[InboxRow], taken: Taken) -> Sequence[InboxRow]:
        """The updates that wait are claimed: they leave their file for the row of the turn."""

        def step(pending: PendingUpdates) -> tuple[PendingUpdates, Taken]:
            left, claim = pop_pending_updates(pending)
            row = replace(taken, claim=claim)
            log.append(row)  # before the updates are gone from their own file
            return left, row

        return [self._stores.updates.transact(step)]

    async def settle(self, claim: PendingUpdates, *, is_taken: bool) -> None:
        """Done with if the prompt was taken; if not, they wait again."""

        def step(pending: PendingUpdates) -> tuple[PendingUpdates, None]:
            return pending.committed(claim) if is_taken else pending.restored(claim), None

        if claim != PendingUpdates():
            await asyncio.to_thread(self._stores.updates.transact, step)

    async def answering(self, _: ChatMessage) -> Sender:
        """A reply to it is an ordinary message."""
        return MAIN

    async def touch(self) -> None:
        """It does not end by itself."""

    async def rest(self) -> None:
        """It does not end by itself."""

    async def clear(self) -> bool:
        """Leave the session for good; False if there was none."""
        session, event = self._session.cleared(self._clock.now())
        if event is not None:
            await self._log(event)
        await self.close()
        await self._keep(session)
        return event is not None

    async def swap(self, session_id: SessionId, cause: Cause) -> None:
        """Make another session the main one; the next turn opens it."""
        await self._become(session_id, cause)
        await self.close()

    async def adopt(self, session_id: SessionId) -> None:
        if self._session.id is None:
            await self._become(session_id, Cause.NAMED)

    async def forget(self) -> None:
        lost = self._session.id
        _logger.warning("The engine does not know session %s any more", lost)
        await self.close()
        if lost is not None:
            await self._lost(lost)
        await self._keep(Session())

    async def _opened(self, spec: SessionSpec) -> AgentSession:
        if self._session.id is not None:
            try:
                return await self._enter(replace(spec, resume=self._session.id))
            except SessionLost:
                await self.forget()
        self._begun = SessionId(str(uuid4()))
        return await self._enter(replace(spec, begin=self._begun))

    async def _named(self, session_id: SessionId) -> None:
        await self._become(session_id, Cause.NAMED)

    async def _compacted(self, session_id: SessionId) -> None:
        await self._become(session_id, Cause.COMPACTED)

    async def _ended(self) -> None:
        await self._keep(self._session)

    async def _become(self, session_id: SessionId, cause: Cause) -> None:
        """Logged first: a crash in between may not take an event out of the history."""
        session, event = self._session.after(session_id, cause, self._clock.now())
        if event is not None and cause is Cause.COMPACTED:
            await self._log(event)
        elif event is not None:
            await log_once(self._stores, event)
        await self._keep(session)

    async def _keep(self, session: Session) -> None:
        self._session = session
        await asyncio.to_thread(self._stores.session.transact, lambda _: (session.id, None))

    async def _log(self, event: SessionEvent) -> None:
        await asyncio.to_thread(self._stores.session_history.append, event)
