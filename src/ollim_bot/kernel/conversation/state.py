"""The state of the conversation, published after each step, and the status that surfaces show."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import TypeVar
from uuid import uuid4

from ollim_bot.kernel.base.clock import Clock, wait_until_set, zone_of
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.base.moments import elapsed, midnight_after
from ollim_bot.kernel.base.text import with_program
from ollim_bot.kernel.conversation.surface_fanout import SurfaceFanout
from ollim_bot.kernel.store.steps import careful_session, was_a_job_set
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.forks import Fork, entry_id
from ollim_bot.kernel.values.inbox import Accepted, CommandCall, Inbox, InboxRow, InputId
from ollim_bot.kernel.values.ports import OpenFork, Status, TurnStart

R = TypeVar("R")
_Published = tuple[Inbox, SessionId | None, Fork | None]
_NONE: Mapping[str, str] = MappingProxyType({})

# The wall clock may be set, or the machine may sleep.
_LONGEST_WAIT = 3600.0


class ConversationState:
    """Runs the steps of the conversation and publishes the state after each.

    Use `inbox`, `session` and `fork` for display and to wake up; a step that decides reads them in
    its transaction. `turn` is the turn that has begun, registered before its inputs are taken.
    `answering` is the model that has answered last, by its own name, until another one is chosen.
    """

    def __init__(self, store: Store) -> None:
        self.turn: TurnStart | None = None
        self.answering = ""
        self.inbox = Inbox()
        self.session: SessionId | None = None
        self.fork: Fork | None = None
        self.read = store.read
        self._store = store
        self.changed = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether no turn runs or has begun; a queued command counts as a turn."""
        return self.turn is None and self.inbox.running is None

    @property
    def is_quiet(self) -> bool:
        """Whether nothing runs and no input can be taken now."""
        return self.is_idle and not self.inbox.next_batch(in_fork=self.fork is not None)

    async def load(self) -> None:
        self.inbox, self.session, self.fork = await self._store.read(_state_in)
        self.wake()

    async def transact(self, step: Step[R]) -> R:
        """As `Store.transact`; the new state is published before this returns or is cancelled."""

        async def run() -> R:
            result, after = await self._store.transact(lambda tx: (step(tx), _state_in(tx)))
            self.inbox, self.session, self.fork = after
            self.wake()
            return result

        return await asyncio.shield(asyncio.ensure_future(run()))

    async def append(self, *rows: InboxRow) -> None:
        await self.transact(lambda tx: tx.inbox.append(*rows))

    async def queue(
        self, command: str, now: datetime, surface: str = "", arguments: Mapping[str, str] = _NONE
    ) -> None:
        """Add a command to the inbox that a button or the program asks for."""
        call = CommandCall(InputId(uuid4().hex), surface, now, command, arguments)
        await self.append(Accepted(now, call))

    async def until_idle(self) -> None:
        while not self.is_idle:
            await self.changed.wait()

    async def work(self) -> None:
        """Wait until an input can be taken."""
        while not self.inbox.next_batch(in_fork=self.fork is not None):
            await self.changed.wait()

    def wake(self) -> None:
        """Tell those who wait that the state has changed."""
        self.changed.set()
        self.changed = asyncio.Event()


def _state_in(tx: Transaction) -> _Published:
    return tx.inbox.get(), tx.session.get(), tx.fork.get()


class StatusBoard:
    """Publishes the status on every change.

    `status` has the model and the names that are used while the owner has chosen no others. What
    has answered is shown by its own name, which says more than `default` or `opus`.
    """

    def __init__(
        self,
        store: Store,
        state: ConversationState,
        fanout: SurfaceFanout,
        status: Status,
        clock: Clock,
    ) -> None:
        self._store = store
        self._state = state
        self._fanout = fanout
        self._status = status
        self._default = status
        self._clock = clock
        self._unkept = ""

    @property
    def current(self) -> Status:
        fork, trouble = self._state.fork, (self._status.trouble, self._unkept)
        return replace(
            self._status,
            is_busy=self._state.inbox.is_busy,
            model=self._state.answering or self._status.model,
            fork=None if fork is None else OpenFork(fork.topic, entry_id(fork.id)),
            trouble=with_program(" ".join(filter(None, trouble)), self._status.program),
        )

    async def run(self) -> None:
        """Show what was just chosen or read, and that the first job was set, until cancelled."""
        # The clock has moved when the zone is noted.
        shown = ("config", "names", "zone", "marks", "session", "fork")
        with self._store.changes(*shown) as changed, ExitStack() as first_job:
            first_job.enter_context(self._store.changes("ledger", event=changed))
            while True:
                changed.clear()
                before = self._status
                await self.load()
                if self._status.has_jobs:
                    first_job.close()
                if self._status != before:
                    await self.tell()
                # At midnight a moment of today becomes one of yesterday.
                now = self._clock.now()
                left = elapsed(now, midnight_after(now)).total_seconds()
                pause = min(left, _LONGEST_WAIT) if self._status.careful else None
                await wait_until_set(changed, self._clock, pause)

    async def load(self) -> None:
        """Read what the owner has chosen, whether a job was set, and what makes it careful."""
        has_jobs = self._status.has_jobs
        reading = self._store.read(
            lambda tx: (
                tx.config.get(),
                tx.names.get(),
                has_jobs or was_a_job_set(tx),
                careful_session(tx),
            )
        )
        read = await unless_refused("The settings could not be read", reading)
        if read is None:
            # The status keeps what was last known.
            return
        config, names, has_jobs, careful = read
        chosen = config.model_main or self._default.model
        if chosen != self._status.model:
            self._state.answering = ""
        self._status = replace(
            self._status,
            model=chosen,
            user_name=names.user or self._default.user_name,
            bot_name=names.bot or self._default.bot_name,
            zone=str(zone_of(self._clock)),
            has_jobs=has_jobs,
            has_sound=config.page_sound,
            careful=careful.shown(self._clock.now()) if careful else None,
        )

    async def tell(self) -> None:
        """Send the current status to all surfaces."""
        status, lanes = self.current, self._fanout.lanes
        await asyncio.gather(
            *(lane.wait_for(lane.begin(surface.changed(status))) for lane, surface in lanes)
        )

    async def trouble(self, sentence: str) -> None:
        """Show a sentence about a service that does not work; empty when it works again."""
        if sentence != self._status.trouble:
            self._status = replace(self._status, trouble=sentence)
            await self.tell()

    async def show_quiet(self, until: datetime | None) -> None:
        """Show until when it is quiet; None when it is not."""
        if until != self._status.quiet_until:
            self._status = replace(self._status, quiet_until=until)
            await self.tell()

    async def show_unkept(self, sentence: str) -> None:
        """Show a sentence that cannot be committed; empty when the disk can be written again."""
        self._unkept = sentence
        await self.tell()
