"""Adds messages to the log, from where all surfaces get them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ollim_bot import errors
from ollim_bot.conversation.delivery import DeliveryQueue, record_fork_message
from ollim_bot.conversation.delivery_queues import until
from ollim_bot.conversation.surface_fanout import SurfaceFanout
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.pings import Charge, PingAllowed, PingBudget, PingVerdict
from ollim_bot.domain.runs import Run
from ollim_bot.domain.sessions import SessionId
from ollim_bot.ports import Clock
from ollim_bot.store.deliveries import Delivery, DeliveryState
from ollim_bot.store.messages import MAIN, Sender
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction
from ollim_bot.tools.context import Arrival, Payment

_ANSWER_WITHIN = 10.0


class MessagePoster:
    """A `Poster`. From the commit on, a message is paid for and on its way to every channel."""

    def __init__(
        self, store: Store, fanout: SurfaceFanout, queues: Sequence[DeliveryQueue], clock: Clock
    ) -> None:
        self._store = store
        self._fanout = fanout
        self._queues = queues
        self._clock = clock
        self._unkept: dict[MessageId, ChatMessage] = {}

    @property
    def unkept(self) -> Sequence[ChatMessage]:
        """Those that are shown although the log has no room for them."""
        return tuple(self._unkept.values())

    async def post(self, message: ChatMessage, sender: Sender = MAIN) -> None:
        """Add it to the log; an earlier one with its id takes its content. Raises `StorageError`.

        A caller that commits something together with the message uses `add_to_log` in its step.
        """
        await self._store.transact(lambda tx: self.add_to_log(tx, message, sender))
        self._unkept.pop(message.id, None)

    def add_to_log(self, tx: Transaction, message: ChatMessage, sender: Sender = MAIN) -> None:
        is_new = tx.messages.get(message.id) is None
        tx.messages.add(message, sender)
        if is_new:
            record_fork_message(tx, message, sender)
            for queue in self._queues:
                queue.recorded(tx, message)

    def add_received(
        self, tx: Transaction, message: ChatMessage, surface: str, refs: Mapping[str, str]
    ) -> None:
        """Add what the owner wrote on a surface, which does not get it back."""
        tx.messages.add(message)
        joined = {each.name for each in tx.channels.all()}
        for name in joined & {surface, *refs}:
            tx.deliveries.note_received(name, message.id, refs.get(name, "").split())

    async def send(self, message: ChatMessage, run: Run, pay: Payment | None = None) -> PingVerdict:
        sender = Sender(Charge.NOTHING, *_session_of(run))

        def step(tx: Transaction) -> PingVerdict:
            if tx.messages.get(message.id) is not None:
                return PingAllowed(Charge.NOTHING)
            if pay is None:
                self.add_to_log(tx, message, sender)
                return PingAllowed(Charge.NOTHING)
            after, verdict = pay(tx.budget.get())
            tx.budget.put(after)
            if isinstance(verdict, PingAllowed):
                self.add_to_log(tx, message, Sender(verdict.charge, sender.fork, sender.parent))
            return verdict

        try:
            verdict = await self._store.transact(step)
        except errors.StorageError as refused:
            raise errors.NotStored(str(refused)) from refused
        self._unkept.pop(message.id, None)
        return verdict

    async def arrival(self, message_id: MessageId) -> Arrival:
        async def decided() -> Arrival | None:
            return _arrival(await self._store.read(lambda tx: tx.deliveries.of_message(message_id)))

        return await until(self._store, self._clock, decided, _ANSWER_WITHIN) or Arrival.ON_ITS_WAY

    async def find(self, message_id: MessageId) -> ChatMessage | None:
        return await self._store.read(lambda tx: tx.messages.get(message_id))

    async def budget(self) -> PingBudget:
        return await self._store.read(lambda tx: tx.budget.get())

    async def show_unkept(self, message: ChatMessage) -> None:
        """Show and hand over a message for which the log has no room now.

        It is to be sent under the same id when there is room. Called again, only what has not
        arrived yet is tried again.
        """
        if self.put_up(message):
            await self._fanout.flash(message)
        await asyncio.gather(*(queue.hand_over(message) for queue in self._queues))

    def put_up(self, message: ChatMessage) -> bool:
        """Let it be read as if it were in the log; False if it is already."""
        is_new = message.id not in self._unkept
        self._unkept[message.id] = message
        return is_new


def _session_of(run: Run) -> tuple[SessionId | None, SessionId | None]:
    fork = None if run.is_main else run.session
    return fork, None if fork is None else run.parent


def _arrival(deliveries: Sequence[Delivery]) -> Arrival | None:
    """None while it is not decided. Raises `DeliveryFailed` where every channel has refused."""
    states = [each.state for each in deliveries]
    if not states or DeliveryState.CONFIRMED in states:
        return Arrival.SENT
    if DeliveryState.OPEN in states:
        return None
    if DeliveryState.REFUSED in states and DeliveryState.UNKNOWN not in states:
        raise errors.DeliveryFailed(next(each.reason for each in deliveries if each.reason))
    return Arrival.SENT
