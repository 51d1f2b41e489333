"""The engine's sessions in which the owner and the agent talk, and the main one of them."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import OllimError, SessionLost
from ollim_bot.kernel.base.ids import SessionId, TurnId
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.state import ConversationState
from ollim_bot.kernel.prompts.prompt_context import FOR_MAIN
from ollim_bot.kernel.store.message_log import MAIN, Sender
from ollim_bot.kernel.store.steps import leave_notice, new_notice
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.tools.registry import MAIN_TOOLS
from ollim_bot.kernel.tools.tool_context import ToolContext
from ollim_bot.kernel.tools.toolset import toolset
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.events import AgentEvent, Compacted, SessionNamed, tool_label
from ollim_bot.kernel.values.inbox import Taken, ToolCalled
from ollim_bot.kernel.values.ports import (
    AgentEngine,
    AgentSession,
    Gate,
    Prompt,
    Refusal,
    SessionSpec,
    ToolCall,
    Toolset,
    Trace,
)
from ollim_bot.kernel.values.runs import Run, RunKind, RunPolicy
from ollim_bot.kernel.values.sessions import Cause, Session
from ollim_bot.kernel.values.updates import PendingUpdates
from ollim_bot.kernel.values.usage import Usage, UsageKind, UsageRow, usage_rows

_POLICY = RunPolicy(RunKind.MAIN, MAIN_TOOLS)

_logger = logging.getLogger(__name__)


Spec = Callable[[], Awaitable[SessionSpec]]


class ChatSession(ABC):
    """Runs one turn at a time.

    `spec` is called before each turn, so that changes of the profile and the settings reach the
    agent without a new conversation.
    """

    in_fork: bool
    header: str

    def __init__(
        self,
        engine: AgentEngine,
        state: ConversationState,
        clock: Clock,
        *,
        spec: Spec,
        tools: Toolset,
    ) -> None:
        self._engine = engine
        self._state = state
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

    async def touch(self) -> None:  # noqa: B027 - only a fork has an idle timeout
        """Note that the owner said something in the session."""

    def rest(self, tx: Transaction, now: datetime) -> None:  # noqa: B027 - as `touch`
        """Note that a turn has ended."""

    @abstractmethod
    async def _named(self, session_id: SessionId) -> None: ...

    @abstractmethod
    async def _compacted(self, session_id: SessionId) -> None: ...

    async def open(self) -> SessionId:
        """Open the session if needed, and return the id that it has or will have.

        Raises `EngineError` if the engine cannot be started.
        """
        spec = await self._spec()
        if self._live is None and self.id is not None:
            try:
                self._live = await self._enter(replace(spec, resume=self.id))
            except SessionLost:
                await self.close()
                await self._state.transact(self.forgetting())
        if self._live is None:
            self._begun = SessionId(str(uuid4()))
            self._live = await self._begin(replace(spec, begin=self._begun))
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

    async def turn(self, asked: Prompt | str) -> AsyncIterator[AgentEvent]:
        """Run a turn of the opened session, or a command of the engine in it.

        The last event is the only `TurnEnded`.
        """
        assert self._live is not None
        live = self._live
        async for event in live.command(asked) if isinstance(asked, str) else live.turn(asked):
            match event:
                case SessionNamed(session_id):
                    await self._named(session_id)
                case Compacted(session_id):
                    await self._compacted(session_id)
            yield event

    async def interrupt(self) -> None:
        if self._live is not None:
            await self._live.interrupt()

    async def trace(self, taken: Taken) -> Trace:
        """What the engine has recorded of a turn."""
        if taken.session is None:
            return Trace(is_taken=False)
        return await self._engine.trace(taken.session, taken.prompt)

    async def wait_until_taken(self, taken: Taken) -> bool:
        """Wait briefly for the engine's record; False if it does not show the prompt as taken."""
        for _ in range(3):
            if (await self.trace(taken)).is_taken:
                return True
            await self._clock.sleep(0.2)
        return False

    @property
    def usage(self) -> Usage:
        """What the opened session has used, also in a turn that was cut off."""
        return self.recorded if self._live is None else self._live.usage

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

    async def _begin(self, spec: SessionSpec) -> AgentSession:
        return await self._enter(spec)

    async def _enter(self, spec: SessionSpec) -> AgentSession:
        return await self._lifetime.enter_async_context(self._engine.open(spec, self._tools))


def main_run(now: datetime) -> Run:
    """A run of the main session outside of a turn."""
    return Run(_POLICY, now)


def replace_session(tx: Transaction, session_id: SessionId, cause: Cause, now: datetime) -> None:
    """Make a session the main one, and append the event for the cause."""
    before = tx.session.get()
    if cause is Cause.COMPACTED and before is not None:
        tx.marks.go_on(session_id, tx.marks.of_session(before))
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

    @property
    def id(self) -> SessionId | None:
        return self._state.session

    def run_at(self, now: datetime, session: SessionId) -> Run:
        return Run(_POLICY, now, session=session)

    def claim(self, tx: Transaction) -> PendingUpdates:
        """Move the pending updates into the row of the turn."""
        claim = tx.updates.get()
        tx.updates.put(PendingUpdates())
        return claim

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

    def forgetting(self) -> Step[None]:
        lost = self.id
        _logger.warning("The engine does not know session %s any more", lost)
        notice = new_notice(texts.SESSION_LOST, key=f"session-lost {lost}", for_reminder=True)
        now = self._clock.now()

        def step(tx: Transaction) -> None:
            if tx.session.get() is not None:
                leave_notice(tx, notice, now)
            tx.session.put(None)

        return step

    async def _named(self, session_id: SessionId, cause: Cause = Cause.NAMED) -> None:
        if session_id == self.id and cause is Cause.NAMED:
            return
        now = self._clock.now()
        await self._state.transact(lambda tx: replace_session(tx, session_id, cause, now))

    async def _compacted(self, session_id: SessionId) -> None:
        await self._named(session_id, Cause.COMPACTED)


def conversation_tools(
    context: ToolContext, gate: Gate, state: ConversationState, clock: Clock
) -> Toolset:
    """Each allowed call is committed before it is made, so that a crash does not repeat it."""

    async def recorded(call: ToolCall) -> Refusal | None:
        refusal = await gate(call)
        running = state.inbox.running
        if refusal is None and running is not None:
            label = tool_label(call.tool, call.arguments)
            await state.append(ToolCalled(clock.now(), running.turn, call.tool, label))
        return refusal

    return toolset(context, recorded)
