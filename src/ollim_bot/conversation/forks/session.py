"""The session of the open fork."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from ollim_bot.conversation.chat_sessions import ChatSession, Spec
from ollim_bot.conversation.forks import cards
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.conversation.state import ConversationState
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.forks import Fork
from ollim_bot.domain.runs import Run, RunKind, RunPolicy
from ollim_bot.domain.sessions import SessionChange, SessionEvent, SessionId
from ollim_bot.domain.updates import PendingUpdates
from ollim_bot.errors import SessionLost
from ollim_bot.ports import AgentEngine, AgentSession, Clock, SessionSpec, Toolset
from ollim_bot.prompts.context import READ_ONLY
from ollim_bot.store.database import Step
from ollim_bot.store.messages import MAIN, Sender
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction
from ollim_bot.tools.registry import MAIN_TOOLS

_POLICY = RunPolicy(RunKind.FORK, MAIN_TOOLS)


def change_fork(tx: Transaction, change: Callable[[Fork], Fork]) -> None:
    """Change the open fork; without one, do nothing."""
    fork = tx.fork.get()
    if fork is not None:
        tx.fork.put(change(fork))


class ForkSession(ChatSession):
    """The session of the open fork; closed before another fork opens."""

    in_fork = True
    header = READ_ONLY

    def __init__(
        self,
        engine: AgentEngine,
        state: ConversationState,
        poster: MessagePoster,
        clock: Clock,
        *,
        spec: Spec,
        tools: Toolset,
    ) -> None:
        super().__init__(engine, clock, spec=spec, tools=tools)
        self._state = state
        self._poster = poster

    @property
    def id(self) -> SessionId | None:
        return self._state.fork.session if self._state.fork else None

    @property
    def resumed_at(self) -> datetime | None:
        fork = self._state.fork
        return fork.resumed_at if fork and fork.session is None else None

    def run_at(self, now: datetime, session: SessionId) -> Run:
        return Run(_POLICY, now, session=session, parent=self._fork.parent)

    def claim(self, tx: Transaction) -> PendingUpdates:
        """The updates new to the fork. They stay pending for the main session."""
        fork = tx.fork.get()
        return PendingUpdates() if fork is None else fork.unseen(tx.updates.get())

    def settle(self, tx: Transaction, claim: PendingUpdates, *, is_taken: bool) -> None:
        if is_taken:
            change_fork(tx, lambda fork: fork.having_seen(claim))

    def adopt(self, tx: Transaction, session_id: SessionId, now: datetime) -> None:
        fork = tx.fork.get()
        if fork is not None and fork.session is None:
            _name(tx, fork, session_id, now)

    def answering(self, tx: Transaction, message: ChatMessage) -> Sender:
        fork = tx.fork.get()
        if fork is None:
            return MAIN
        tx.fork.put(fork.answered(message.text))
        return Sender(fork=fork.session, parent=fork.parent)

    async def touch(self) -> None:
        now = self._clock.now()
        await self._state.transact(lambda tx: change_fork(tx, lambda fork: fork.touched(now)))

    def rest(self, tx: Transaction, now: datetime) -> None:
        change_fork(tx, lambda fork: fork.rested(now))

    def forgetting(self) -> Step[None]:
        if self._fork.session is None:
            return lambda _: None
        return self._losing(lambda fork: replace(fork, session=None))

    @property
    def _fork(self) -> Fork:
        assert self._state.fork is not None
        return self._state.fork

    async def _opened(self, spec: SessionSpec) -> AgentSession:
        if self._fork.session is not None:
            try:
                return await self._enter(replace(spec, resume=self._fork.session))
            except SessionLost:
                await self.close()
                await self._state.transact(self.forgetting())
        self._begun = SessionId(str(uuid4()))
        new = replace(spec, begin=self._begun)
        parent = self._fork.parent
        try:
            return await self._enter(replace(new, branch_of=parent))
        except SessionLost:
            if parent is None:
                raise
            # The fork loses its history, but the owner gets an answer.
            step = self._losing(lambda fork: replace(fork, resumed_at=None))
            await self._state.transact(step)
            return await self._enter(new)

    async def _named(self, session_id: SessionId) -> None:
        if self._fork.session == session_id:
            return
        now = self._clock.now()

        def step(tx: Transaction) -> None:
            fork = tx.fork.get()
            if fork is not None:
                _name(tx, fork, session_id, now)

        await self._state.transact(step)

    async def _compacted(self, session_id: SessionId) -> None:
        now = self._clock.now()

        def step(tx: Transaction) -> None:
            fork = tx.fork.get()
            if fork is not None:
                before = fork.session or session_id
                tx.session_history.append(
                    SessionEvent(session_id, SessionChange.COMPACTED, now, before)
                )
                tx.taint.change(lambda known: known.with_read(session_id, known.of(before)))
                tx.fork.put(fork.named(session_id))

        await self._state.transact(step)

    def _losing(self, change: Callable[[Fork], Fork]) -> Step[None]:
        """Post a note in the fork, because a notice might wait until the fork has ended."""
        note = self._poster.note(cards.LOST, name=f"fork-lost-{self._fork.id}")

        def step(tx: Transaction) -> None:
            self._poster.add_note(tx, note)
            change_fork(tx, change)

        return step


def _name(tx: Transaction, fork: Fork, session_id: SessionId, now: datetime) -> None:
    change = SessionChange.INTERACTIVE_FORK
    tx.session_history.append(SessionEvent(session_id, change, now, fork.parent))
    tx.fork.put(fork.named(session_id))


def fork_spec(base: Spec, store: Store) -> Spec:
    """The specification of the main session, with the model and the thinking of forks."""

    async def spec() -> SessionSpec:
        config, fork = await store.read(lambda tx: (tx.config.get(), tx.fork.get()))
        fork_model = fork.model if fork else None
        like_main = await base()
        return replace(
            like_main,
            model=fork_model or config.model_fork or like_main.model,
            thinking=config.thinking_fork,
        )

    return spec
