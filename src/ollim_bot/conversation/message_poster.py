"""Adds messages to the log, which the surfaces and channels follow."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from ollim_bot import errors
from ollim_bot.conversation.delivery import DeliveryQueue, record_fork_message
from ollim_bot.conversation.delivery_queues import until
from ollim_bot.conversation.surface_fanout import SurfaceFanout
from ollim_bot.domain.cards import ButtonPrompt
from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.digest import HeldMessage
from ollim_bot.domain.due_items import DueItem, delivery_id
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.pings import Charge, PingAllowed, PingBudget, PingRefused, PingVerdict
from ollim_bot.domain.quiet import quiet_until
from ollim_bot.domain.runs import Run
from ollim_bot.domain.text import PROGRAM, with_program
from ollim_bot.ports import Clock
from ollim_bot.store.deliveries import Delivery, DeliveryState
from ollim_bot.store.item_answers import add_item
from ollim_bot.store.messages import MAIN, Sender
from ollim_bot.store.steps import hold, quiet_settings, store_prompts, was_held
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction
from ollim_bot.tools.context import Arrival, Payment
from ollim_bot.tools.messages import REMINDED

_ANSWER_WITHIN = 10.0


class MessagePoster:
    """Implements `Poster`. A committed message is paid for and will be delivered.

    Commands in the program's own messages are written as `program` is called in a terminal.
    """

    def __init__(
        self,
        store: Store,
        fanout: SurfaceFanout,
        queues: Sequence[DeliveryQueue],
        clock: Clock,
        *,
        program: str = PROGRAM,
    ) -> None:
        self._store = store
        self._fanout = fanout
        self._queues = queues
        self._clock = clock
        self._program = program
        self._unkept: dict[MessageId, ChatMessage] = {}

    @property
    def unkept(self) -> Sequence[ChatMessage]:
        """The messages that are shown although the log cannot be written."""
        return tuple(self._unkept.values())

    async def post(
        self, message: ChatMessage, sender: Sender = MAIN, *, may_wait: bool = False
    ) -> None:
        """Add the message to the log, or replace the one with its id. Raises `StorageError`.

        One that `may_wait` is kept for the digest while it is quiet. To commit the message together
        with other rows, call `add_to_log` or `hold_or_add` in the step.
        """
        add = self.hold_or_add if may_wait else self.add_to_log
        await self._store.transact(lambda tx: add(tx, message, sender))
        self._unkept.pop(message.id, None)

    def hold_or_add(
        self, tx: Transaction, message: ChatMessage, sender: Sender = MAIN, key: str = ""
    ) -> datetime | None:
        """Add the message to the log, or keep it for the digest while it is quiet.

        Returns until when it waits, if it does. Of those with one `key` only the newest waits.
        """
        until = quiet_until(quiet_settings(tx), tx.now)
        if until is None or tx.messages.get(message.id) is not None:
            self.add_to_log(tx, message, sender)
            return None
        hold(tx, HeldMessage(message, key, sender.charge, sender.fork, sender.parent), until)
        return until

    def add_to_log(self, tx: Transaction, message: ChatMessage, sender: Sender = MAIN) -> None:
        is_new = tx.messages.get(message.id) is None
        if message.author is Author.PROGRAM:
            message = self._as_typed(message)
        tx.messages.add(message, sender)
        if is_new:
            if sender.fork is not None:
                record_fork_message(tx, message, sender)
            for queue in self._queues:
                queue.recorded(tx, message)

    def _as_typed(self, message: ChatMessage) -> ChatMessage:
        card = message.card
        if card is not None:
            card = replace(card, description=with_program(card.description, self._program))
        return replace(message, text=with_program(message.text, self._program), card=card)

    def add_received(
        self, tx: Transaction, message: ChatMessage, surface: str, refs: Mapping[str, str]
    ) -> None:
        """Add what the owner wrote on a surface, which does not get it back."""
        tx.messages.add(message)
        joined = {each.name for each in tx.channels.all()}
        for name in joined & {surface, *refs}:
            tx.deliveries.note_received(name, message.id, refs.get(name, "").split())

    async def send(
        self,
        message: ChatMessage,
        run: Run,
        pay: Payment | None = None,
        prompts: Sequence[ButtonPrompt] = (),
        item: DueItem | None = None,
        *,
        waits_as: str | None = None,
    ) -> PingVerdict:
        fork = None if run.is_main else run.session
        parent = None if fork is None else run.parent

        def step(tx: Transaction) -> PingVerdict:
            if tx.messages.get(message.id) is not None or was_held(tx, message):
                return PingAllowed(Charge.NOTHING)
            if item is not None and _is_delivered_plainly(tx, item):
                return PingRefused(REMINDED)
            verdict: PingVerdict = PingAllowed(Charge.NOTHING)
            if pay is not None:
                verdict = tx.budget.take(pay)
            if not isinstance(verdict, PingAllowed):
                return verdict
            if prompts:
                store_prompts(tx, prompts)
            sender = Sender(verdict.charge, fork, parent)
            # What costs a token is the bot's own initiative.
            if verdict.charge is Charge.TOKEN or waits_as is not None:
                held_until = self.hold_or_add(tx, message, sender, waits_as or "")
                verdict = replace(verdict, held_until=held_until)
            else:
                self.add_to_log(tx, message, sender)
            if item is not None:
                add_item(tx, item)
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

        arrival = await decided()
        if arrival is None:
            arrival = await until(self._store, self._clock, decided, _ANSWER_WITHIN)
        return arrival or Arrival.ON_ITS_WAY

    async def find(self, message_id: MessageId) -> ChatMessage | None:
        return await self._store.read(lambda tx: tx.messages.get(message_id))

    async def budget(self) -> PingBudget:
        return await self._store.read(lambda tx: tx.budget.get())

    async def show_unkept(self, message: ChatMessage) -> None:
        """Show and send a message that cannot be committed now.

        Post it under the same id when the log can be written. A further call sends only the parts
        that have not arrived.
        """
        if self.put_up(message):
            await self._fanout.flash(message)
        await asyncio.gather(*(queue.hand_over(message) for queue in self._queues))

    def put_up(self, message: ChatMessage) -> bool:
        """Add the message to `unkept`; False if it is there already."""
        is_new = message.id not in self._unkept
        self._unkept[message.id] = message
        return is_new


def _is_delivered_plainly(tx: Transaction, item: DueItem) -> bool:
    """Whether the program or the sentinel has delivered it; a refused message does not count."""
    plain = delivery_id(Occurrence.parse(item.occurrence))
    states = [each.state for each in tx.deliveries.of_message(plain)]
    is_refused = bool(states) and all(state is DeliveryState.REFUSED for state in states)
    return tx.messages.get(plain) is not None and not is_refused


def _arrival(deliveries: Sequence[Delivery]) -> Arrival | None:
    """None while undecided. Raises `DeliveryFailed` if every channel has refused."""
    states = [each.state for each in deliveries]
    if not states or DeliveryState.CONFIRMED in states:
        return Arrival.SENT
    if DeliveryState.OPEN in states:
        return None
    if DeliveryState.REFUSED in states and DeliveryState.UNKNOWN not in states:
        raise errors.DeliveryFailed(next(each.reason for each in deliveries if each.reason))
    return Arrival.SENT
