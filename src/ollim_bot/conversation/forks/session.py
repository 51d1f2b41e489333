"""The fork that is open, on disk, and its session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from ollim_bot.conversation.sessions.dialogue import ChatSession, Spec
from ollim_bot.conversation.sessions.main_session import log_once
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.forks import Fork
from ollim_bot.domain.inbox import InboxRow, Taken
from ollim_bot.domain.runs import Run, RunKind, RunPolicy
from ollim_bot.domain.sessions import SessionChange, SessionEvent, SessionId
from ollim_bot.domain.updates import PendingUpdates
from ollim_bot.errors import SessionLost
from ollim_bot.ports import AgentEngine, AgentSession, Clock, Log, SessionSpec, Store, Toolset
from ollim_bot.prompts.context import READ_ONLY
from ollim_bot.store.messages import Sender
from ollim_bot.stores import Stores
from ollim_bot.tools.registry import MAIN_TOOLS


class ForkState:
    """`fork` is what the file holds; None if none is open."""

    def __init__(self, store: Store[Fork | None]) -> None:
        self.fork: Fork | None = None
        self._store = store
        self._changed = asyncio.Event()

    async def load(self) -> None:
        self.fork = await asyncio.to_thread(self._store.read)

    async def keep(self, fork: Fork | None) -> None:
        """On disk when it returns."""
        await asyncio.to_thread(self._store.transact, lambda _: (fork, None))
        self.fork = fork
        self._changed.set()

    async def change(self, step: Callable[[Fork], Fork]) -> None:
        """Nothing, if none is open."""
        if self.fork is not None and (after := step(self.fork)) != self.fork:
            await self.keep(after)

    async def next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


_POLICY = RunPolicy(RunKind.FORK, MAIN_TOOLS)


class ForkSession(ChatSession):
    """Of whichever fork is open; it is closed before another one opens.

    `lost` is called when the engine does not know any more what was said in it, or before it.
    """

    in_fork = True
    header = READ_ONLY

    def __init__(
        self,
        engine: AgentEngine,
        stores: Stores,
        clock: Clock,
        kept: ForkState,
        *,
        spec: Spec,
        tools: Toolset,
        lost: Callable[[Fork], Awaitable[None]],
    ) -> None:
        super().__init__(engine, clock, spec=spec, tools=tools)
        self._stores = stores
        self._kept = kept
        self._lost = lost

    @property
    def id(self) -> SessionId | None:
        return self._kept.fork.session if self._kept.fork else None

    @property
    def resumed_at(self) -> datetime | None:
        fork = self._kept.fork
        return fork.resumed_at if fork and fork.session is None else None

    def run_at(self, now: datetime, session: SessionId) -> Run:
        return Run(_POLICY, now, session=session, parent=self._fork.parent)

    def take(self, log: Log[InboxRow], taken: Taken) -> Sequence[InboxRow]:
        """The updates stay where they are: the main session will see them too."""
        claim = self._fork.unseen(self._stores.updates.read())
        row = replace(taken, claim=claim, in_fork=True)
        log.append(row)
        return [row]

    async def settle(self, claim: PendingUpdates, *, is_taken: bool) -> None:
        if is_taken:
            await self._kept.change(lambda fork: fork.having_seen(claim))

    async def answering(self, message: ChatMessage) -> Sender:
        sender = Sender(fork=self._fork.session, parent=self._fork.parent)
        await self._kept.change(lambda fork: fork.answered(message.text))
        return sender

    async def touch(self) -> None:
        await self._kept.change(lambda fork: fork.touched(self._clock.now()))

    async def rest(self) -> None:
        await self._kept.change(lambda fork: fork.rested(self._clock.now()))

    async def adopt(self, session_id: SessionId) -> None:
        if self._fork.session is None:
            await self._named(session_id)

    async def forget(self) -> None:
        fork = self._fork
        await self.close()
        if fork.session is not None:
            await self._lost(fork)
        await self._kept.change(lambda fork: replace(fork, session=None))

    @property
    def _fork(self) -> Fork:
        assert self._kept.fork is not None
        return self._kept.fork

    async def _opened(self, spec: SessionSpec) -> AgentSession:
        if self._fork.session is not None:
            try:
                return await self._enter(replace(spec, resume=self._fork.session))
            except SessionLost:
                await self.forget()
        self._begun = SessionId(str(uuid4()))
        new = replace(spec, begin=self._begun)
        parent = self._fork.parent
        try:
            return await self._enter(replace(new, branch_of=parent))
        except SessionLost:
            if parent is None:
                raise
            # Without what was said before, but the owner can be answered.
            await self._lost(self._fork)
            await self._kept.change(lambda fork: replace(fork, resumed_at=None))
            return await self._enter(new)

    async def _named(self, session_id: SessionId) -> None:
        fork = self._fork
        if fork.session == session_id:
            return
        now = self._clock.now()
        change = SessionChange.INTERACTIVE_FORK
        await log_once(self._stores, SessionEvent(session_id, change, now, fork.parent))
        await self._kept.change(lambda one: one.named(session_id))

    async def _compacted(self, session_id: SessionId) -> None:
        now, before = self._clock.now(), self._fork.session or session_id
        event = SessionEvent(session_id, SessionChange.COMPACTED, now, before)
        await asyncio.to_thread(self._stores.session_history.append, event)
        await self._kept.change(lambda fork: fork.named(session_id))

    async def _ended(self) -> None:
        """Whatever a turn changes is kept when it happens."""


def fork_spec(base: Spec, kept: ForkState, stores: Stores) -> Spec:
    """Like the main session, but for the model and how much it thinks."""

    async def spec() -> SessionSpec:
        config = await asyncio.to_thread(stores.config.read)
        fork_model = kept.fork.model if kept.fork else None
        like_main = await base()
        return replace(
            like_main,
            model=fork_model or config.model_fork or like_main.model,
            thinking=config.thinking_fork,
        )

    return spec
