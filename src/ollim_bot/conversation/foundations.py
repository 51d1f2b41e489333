"""What the conversation stands on: from the files up to whoever answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ollim_bot.conversation import texts
from ollim_bot.conversation.approvals import Approvals
from ollim_bot.conversation.auto_commit import AutoCommit
from ollim_bot.conversation.chat_log import ChatLog
from ollim_bot.conversation.delivery import DeliveryQueue
from ollim_bot.conversation.delivery_queues import DeliveryQueues
from ollim_bot.conversation.failure_notices import FailureNotices
from ollim_bot.conversation.forks import cards
from ollim_bot.conversation.forks.commands import ForkCommands
from ollim_bot.conversation.forks.forks import Forks
from ollim_bot.conversation.forks.session import ForkSession, ForkState, fork_spec
from ollim_bot.conversation.inbox import DurableInbox
from ollim_bot.conversation.jobs.echo import ChangeEcho, ChangeWatch, Former
from ollim_bot.conversation.jobs.foreground import ForegroundJobs
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.conversation.notices import Notices
from ollim_bot.conversation.posting import Posting
from ollim_bot.conversation.sessions.conversation_tools import conversation_tools
from ollim_bot.conversation.sessions.main_session import MainSession, main_run
from ollim_bot.conversation.surface_fanout import SurfaceFanout
from ollim_bot.conversation.turns.questions import Tainting, TurnInputs
from ollim_bot.conversation.turns.runner import TurnRunner
from ollim_bot.domain.events import AgentEvent
from ollim_bot.domain.forks import Fork
from ollim_bot.domain.sessions import SessionId
from ollim_bot.ports import (
    AgentEngine,
    AttachmentStore,
    Channel,
    ChatSurface,
    Clock,
    Gate,
    Journal,
    SessionSpec,
    Status,
    Toolset,
)
from ollim_bot.store.store import Store
from ollim_bot.stores import Stores
from ollim_bot.tools.context import ToolContext
from ollim_bot.tools.gates import Allowed, BackgroundTools, TaintCheck, TaintGuard, Undecided
from ollim_bot.tools.job_validator import JobChecker


@dataclass(frozen=True, slots=True)
class World:
    """Everything outside that a conversation needs.

    `spec` says what a session is to be like now; `gate` makes what is asked before each call of a
    tool, given what the owner has allowed since, who decides about the rest, and what a turn that
    has read untrusted text needs the owner's word for; `doctor` looks the whole installation over;
    `restart` has the whole bot begin anew. `surfaces` follow the log; `channels` have to confirm
    what is sent. `patience` is how many seconds a slow surface is waited for.
    """

    engine: AgentEngine
    stores: Stores
    store: Store
    clock: Clock
    surfaces: Sequence[ChatSurface]
    keeper: AttachmentStore
    spec: Callable[[], Awaitable[SessionSpec]]
    gate: Callable[[Allowed, Undecided, TaintCheck], Gate]
    background_tools: BackgroundTools
    journal: Journal
    job_files: JobChecker
    former: Former
    working_directory: Path
    status: Status
    doctor: Callable[[], Awaitable[str]]
    restart: Callable[[], None]
    channels: Sequence[Channel] = ()
    patience: float = 2.0


class Foundations:
    """Each part is made when it is first asked for, and once.

    Some need each other. One of the two then asks for the other when something happens, not when
    it is made.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._engine = world.engine
        self._stores = world.stores
        self._store = world.store
        self._clock = world.clock
        self._root = world.working_directory
        self._price = world.status.price

    @cached_property
    def _chat(self) -> ChatLog:
        return ChatLog(self._store)

    @cached_property
    def fanout(self) -> SurfaceFanout:
        world = self._world
        return SurfaceFanout(self._store, world.surfaces, world.channels, patience=world.patience)

    @cached_property
    def _queues(self) -> Sequence[DeliveryQueue]:
        channels = self._world.channels
        return [DeliveryQueue(self._store, each, self._clock) for each in channels]

    @cached_property
    def deliveries(self) -> DeliveryQueues:
        return DeliveryQueues(self._store, self._queues, self._clock)

    @cached_property
    def failures(self) -> FailureNotices:
        return FailureNotices(self._store, self.notices.tell)

    @cached_property
    def _inbox(self) -> DurableInbox:
        return DurableInbox(self._stores.inbox)

    @cached_property
    def poster(self) -> MessagePoster:
        return MessagePoster(self._store, self.fanout, self._queues, self._clock)

    @cached_property
    def notices(self) -> Notices:
        return Notices(
            self._stores, self.poster, self._clock, may_speak=lambda: self._answering.is_idle
        )

    @cached_property
    def session(self) -> MainSession:
        return MainSession(
            self._engine,
            self._stores,
            self._clock,
            spec=self._world.spec,
            tools=self._tools,
            lost=self._tell_session_lost,
        )

    @cached_property
    def _kept_fork(self) -> ForkState:
        return ForkState(self._stores.fork)

    @cached_property
    def _fork_session(self) -> ForkSession:
        return ForkSession(
            self._engine,
            self._stores,
            self._clock,
            self._kept_fork,
            spec=fork_spec(self._world.spec, self._kept_fork, self._stores),
            tools=self._tools,
            lost=self._tell_fork_lost,
        )

    @cached_property
    def forks(self) -> Forks:
        return Forks(
            self._stores,
            self._kept_fork,
            self.session,
            self._fork_session,
            self._chat,
            self.poster,
            self._clock,
        )

    @cached_property
    def _fork_commands(self) -> ForkCommands:
        return ForkCommands(self.forks, self._inbox, self._clock, note=self._posting.note)

    @cached_property
    def _tools(self) -> Toolset:
        approvals, guard = self._approvals, TaintGuard(self._root, lambda: self._bench.run.taint)
        taint = TaintCheck(guard, approvals.decide_tainted)
        gate = self._world.gate(approvals.granted, approvals.decide, taint)
        return conversation_tools(
            self._bench, self._change_watch.noting(gate), self._inbox, self._clock
        )

    @cached_property
    def _bench(self) -> ToolContext:
        return ToolContext(
            run=main_run(self._clock.now()),
            stores=self._stores,
            clock=self._clock,
            root=self._root,
            poster=self.poster,
            is_busy=self._is_busy,
            wants=lambda intent: self._fork_commands.want(intent),
        )

    @cached_property
    def _approvals(self) -> Approvals:
        return Approvals(
            self._stores, self.poster, self._clock, self._root, in_fork=self._is_in_fork
        )

    @cached_property
    def echo(self) -> ChangeEcho:
        world = self._world
        return ChangeEcho(
            self._root, world.job_files, world.former, self._stores, self.poster.post, self._clock
        )

    @cached_property
    def _change_watch(self) -> ChangeWatch:
        return self.echo.watch()

    @cached_property
    def _auto_commit(self) -> AutoCommit:
        return AutoCommit(self._world.journal, self._root)

    @cached_property
    def _posting(self) -> Posting:
        return Posting(self.poster, self.forks, self._clock, price=self._price)

    @cached_property
    def foreground(self) -> ForegroundJobs:
        return ForegroundJobs(self._stores, self._inbox, self._chat, self._clock)

    @cached_property
    def _questions(self) -> TurnInputs:
        return TurnInputs(self._world.keeper)

    @cached_property
    def _answering(self) -> TurnRunner:
        return TurnRunner(
            self._inbox,
            self.forks,
            self.fanout,
            self._posting,
            self._bench,
            self._watched,
            self.foreground,
            Tainting(self._chat, self._inbox),
            self._clock,
            hurry=self._questions.hurry,
        )

    def _watched(
        self, events: AsyncIterator[AgentEvent], *, in_fork: bool
    ) -> AsyncIterator[AgentEvent]:
        return self._change_watch.watching(self._auto_commit.watching(events), in_fork=in_fork)

    def _is_busy(self) -> bool:
        return self._inbox.state.is_busy

    def _is_in_fork(self) -> bool:
        return self._kept_fork.fork is not None

    async def _tell_session_lost(self, session_id: SessionId) -> None:
        await self.notices.tell(texts.SESSION_LOST, key=f"session-lost {session_id}")

    async def _tell_fork_lost(self, fork: Fork) -> None:
        """At once, and in the fork: a notice may have to wait until it has ended."""
        await self._posting.note(cards.LOST, name=f"fork-lost-{fork.id}")
