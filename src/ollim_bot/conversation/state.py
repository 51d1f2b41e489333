"""The state of the conversation: changed by steps, published after each of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TypeVar

from ollim_bot.domain.forks import Fork
from ollim_bot.domain.inbox import Inbox, InboxRow
from ollim_bot.domain.sessions import SessionId
from ollim_bot.ports import TurnStart
from ollim_bot.store.database import Step
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

R = TypeVar("R")


_EMPTY = Inbox()


@dataclass(frozen=True, slots=True)
class _Snapshot:
    inbox: Inbox = _EMPTY
    session: SessionId | None = None
    fork: Fork | None = None

    @classmethod
    def of(cls, tx: Transaction) -> _Snapshot:
        return cls(tx.inbox.get(), tx.session.get(), tx.fork.get())


class ConversationState:
    """Runs the steps of the conversation and publishes the state after each.

    Use `inbox`, `session` and `fork` for display and to wake up; a step that decides reads them in
    its transaction. `turn` is the turn that has begun, registered before its inputs are taken.
    `answering` is the model that has answered last, by its own name, until another one is chosen.
    """

    def __init__(self, store: Store) -> None:
        self.turn: TurnStart | None = None
        self.answering = ""
        self._store = store
        self._snapshot = _Snapshot()
        self._changed = asyncio.Event()

    @property
    def inbox(self) -> Inbox:
        return self._snapshot.inbox

    @property
    def session(self) -> SessionId | None:
        return self._snapshot.session

    @property
    def fork(self) -> Fork | None:
        return self._snapshot.fork

    @property
    def is_busy(self) -> bool:
        """Whether a message of the owner waits or is being answered."""
        return self.inbox.is_busy

    @property
    def is_idle(self) -> bool:
        """Whether no turn runs or has begun; a queued command counts as a turn."""
        return self.turn is None and self.inbox.running is None

    @property
    def is_quiet(self) -> bool:
        """Whether nothing runs and no input can be taken now."""
        return self.is_idle and not self.inbox.next_batch(in_fork=self.fork is not None)

    def begin_turn(self, start: TurnStart) -> None:
        """Register a turn before its inputs are taken."""
        self.turn = start

    def note_answer(self, model: str) -> None:
        """Note the model of a turn; a turn in which none answered has an empty name."""
        self.answering = model or self.answering

    def end_turn(self) -> None:
        self.turn = None
        self._wake()

    async def load(self) -> None:
        self._publish(await self._store.read(_Snapshot.of))

    async def transact(self, step: Step[R]) -> R:
        """As `Store.transact`; the new state is published before this returns or is cancelled."""
        return await asyncio.shield(asyncio.ensure_future(self._transact(step)))

    async def read(self, question: Step[R]) -> R:
        return await self._store.read(question)

    async def append(self, *rows: InboxRow) -> None:
        await self.transact(lambda tx: tx.inbox.append(*rows))

    async def next_change(self) -> None:
        await self._changed.wait()

    async def until_idle(self) -> None:
        while not self.is_idle:
            await self.next_change()

    async def work(self) -> None:
        """Wait until an input can be taken."""
        while not self.inbox.next_batch(in_fork=self.fork is not None):
            await self.next_change()

    async def _transact(self, step: Step[R]) -> R:
        result, after = await self._store.transact(lambda tx: (step(tx), _Snapshot.of(tx)))
        self._publish(after)
        return result

    def _publish(self, snapshot: _Snapshot) -> None:
        self._snapshot = snapshot
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
