"""The main session of the conversation."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from ollim_bot.conversation import texts
from ollim_bot.conversation.sessions.dialogue import ChatSession, Spec
from ollim_bot.conversation.state import ConversationState
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.runs import Run, RunKind, RunPolicy
from ollim_bot.domain.sessions import Cause, Session, SessionId
from ollim_bot.domain.updates import PendingUpdates, pop_pending_updates
from ollim_bot.errors import SessionLost
from ollim_bot.ports import AgentEngine, AgentSession, Clock, SessionSpec, Toolset
from ollim_bot.prompts.context import FOR_MAIN
from ollim_bot.store.database import Step
from ollim_bot.store.messages import MAIN, Sender
from ollim_bot.store.steps import leave_notice, new_notice
from ollim_bot.store.transaction import Transaction
from ollim_bot.tools.registry import MAIN_TOOLS

_POLICY = RunPolicy(RunKind.MAIN, MAIN_TOOLS)

_logger = logging.getLogger(__name__)


def main_run(now: datetime, session: SessionId | None = None) -> Run:
    return Run(_POLICY, now, session=session)


def replace_session(tx: Transaction, session_id: SessionId, cause: Cause, now: datetime) -> None:
    """Make a session the main one, and append the event for the cause."""
    before = tx.session.get()
    if cause is Cause.COMPACTED and before is not None:
        tx.taint.change(lambda known: known.with_read(session_id, known.of(before)))
    session, event = Session(before).after(session_id, cause, now)
    tx.session.put(session.id)
    if event is not None:
        tx.session_history.append(event)


def leave_session(tx: Transaction, now: datetime) -> SessionId | None:
    """Leave the main session, so that the next turn begins one. Returns the session left."""
    left = tx.session.get()
    session, event = Session(left).cleared(now)
    tx.session.put(session.id)
    if event is not None:
        tx.session_history.append(event)
    return left


class MainSession(ChatSession):
    """The session of the conversation, under the stored id."""

    in_fork = False
    header = FOR_MAIN

    def __init__(
        self,
        engine: AgentEngine,
        state: ConversationState,
        clock: Clock,
        *,
        spec: Spec,
        tools: Toolset,
    ) -> None:
        super().__init__(engine, clock, spec=spec, tools=tools)
        self._state = state

    @property
    def id(self) -> SessionId | None:
        return self._state.session

    def run_at(self, now: datetime, session: SessionId) -> Run:
        return main_run(now, session)

    def claim(self, tx: Transaction) -> PendingUpdates:
        """Move the pending updates into the row of the turn."""
        return tx.updates.take(pop_pending_updates)

    def settle(self, tx: Transaction, claim: PendingUpdates, *, is_taken: bool) -> None:
        """Make updates of a prompt that the engine did not take pending again."""
        if claim != PendingUpdates():
            pending = tx.updates.get()
            tx.updates.put(pending.committed(claim) if is_taken else pending.restored(claim))

    def adopt(self, tx: Transaction, session_id: SessionId, now: datetime) -> None:
        if tx.session.get() is None:
            replace_session(tx, session_id, Cause.NAMED, now)

    def answering(self, _: Transaction, __: ChatMessage) -> Sender:
        """A reply to it is an ordinary message."""
        return MAIN

    async def touch(self) -> None:
        """The main session has no idle timeout."""

    def rest(self, tx: Transaction, now: datetime) -> None:
        """The main session has no idle timeout."""

    def forgetting(self) -> Step[None]:
        lost = self.id
        _logger.warning("The engine does not know session %s any more", lost)
        notice = new_notice(texts.SESSION_LOST, key=f"session-lost {lost}")
        now = self._clock.now()

        def step(tx: Transaction) -> None:
            if tx.session.get() is not None:
                leave_notice(tx, notice, now)
            tx.session.put(None)

        return step

    async def _opened(self, spec: SessionSpec) -> AgentSession:
        if self.id is not None:
            try:
                return await self._enter(replace(spec, resume=self.id))
            except SessionLost:
                await self.close()
                await self._state.transact(self.forgetting())
        self._begun = SessionId(str(uuid4()))
        return await self._enter(replace(spec, begin=self._begun))

    async def _named(self, session_id: SessionId) -> None:
        if session_id != self.id:
            await self._become(session_id, Cause.NAMED)

    async def _compacted(self, session_id: SessionId) -> None:
        await self._become(session_id, Cause.COMPACTED)

    async def _become(self, session_id: SessionId, cause: Cause) -> None:
        now = self._clock.now()
        await self._state.transact(lambda tx: replace_session(tx, session_id, cause, now))
