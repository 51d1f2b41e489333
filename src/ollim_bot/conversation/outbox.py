"""What the bot sends by itself: written down before, confirmed after, never lost, never twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from ollim_bot import errors
from ollim_bot.conversation.chat_log import ChatLog
from ollim_bot.conversation.stage import Stage
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.fork_messages import ForkMessage, with_fork_message
from ollim_bot.domain.outgoing import Charge, NotSent, Outbox, OutboxRow, Sending, Sent
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.runs import Run
from ollim_bot.ports import Clock
from ollim_bot.stores import Stores
from ollim_bot.tools.server.bench import Payment

_LONG = 400

_logger = logging.getLogger(__name__)


class DurableOutbox:
    """A `Poster`. A message is delivered when it is in the message log, which the page shows.

    From the moment that its row is in the outbox it will be paid for and delivered, each once; only
    if that is known to have failed is it taken back, with what it cost.
    """

    def __init__(self, stores: Stores, chat: ChatLog, stage: Stage, clock: Clock) -> None:
        self._stores = stores
        self._chat = chat
        self._stage = stage
        self._clock = clock
        self._rows = 0

    async def load(self) -> None:
        """Bring to its end what a crash has cut off; the rest is done with."""
        await asyncio.to_thread(self._stores.outbox.compact, _fewest)
        rows = (await asyncio.to_thread(self._stores.outbox.read)).entries
        for sending in Outbox.of(rows).open:
            _logger.info("A message was cut off on its way")
            try:
                await self._finish(sending)
            except errors.StorageError:  # it stays in the outbox, and the bot starts nevertheless
                _logger.exception("A message that was cut off could not be sent now")

    async def send(self, message: ChatMessage, run: Run, pay: Payment | None = None) -> bool:
        fork = None if run.is_main else run.session
        parent = None if fork is None else run.parent
        sending = Sending(self._clock.now(), message, fork=fork, parent=parent)
        # Whoever gives up waiting must not leave it half-way until the next start.
        return await asyncio.shield(asyncio.ensure_future(self._send(sending, pay)))

    async def _send(self, sending: Sending, pay: Payment | None) -> bool:
        if self._chat.recent(sending.message.id) is not None:
            return True
        try:
            begun = await asyncio.to_thread(self._begin, sending, pay)
        except errors.StorageError as refused:
            raise errors.NotSent(str(refused)) from refused
        if begun is None:
            return False
        try:
            await asyncio.to_thread(self._remember, begun)
            await self._stage.post(begun.message)
        except errors.StorageError as refused:
            if await asyncio.to_thread(self._take_back, begun, str(refused)):
                raise errors.NotSent(str(refused)) from refused
        else:
            await asyncio.to_thread(self._confirm, begun.message.id)
        return True

    async def _finish(self, sending: Sending) -> None:
        await asyncio.to_thread(self._settle, sending)
        if await self._chat.find(sending.message.id) is None:
            await self._stage.post(sending.message)
        await asyncio.to_thread(self._confirm, sending.message.id)

    def _begin(self, sending: Sending, pay: Payment | None) -> Sending | None:
        """Put it into the outbox, if it can be paid for.

        The row comes first: it has the number of the payment, by which a crash before the payment
        is told from one after it.
        """
        if pay is None:
            self._stores.outbox.append(sending)
            return sending
        begun: list[Sending] = []

        def step(budget: PingBudget) -> tuple[PingBudget, None]:
            after, charge = pay(budget)
            if charge is None:
                return after, None
            number = 0 if charge is Charge.NOTHING else after.payments + 1
            row = replace(sending, charge=charge, payment=number)
            self._stores.outbox.append(row)
            begun.append(row)
            return replace(after, payments=max(after.payments, number)), None

        try:
            self._stores.pings.transact(step)
        except errors.StorageError as refused:
            if not begun or self._take_back(begun[0], str(refused)):
                raise
        return begun[0] if begun else None

    def _settle(self, sending: Sending) -> None:
        """What comes before the message is seen, if it has not come yet."""
        if sending.payment:
            now = self._clock.now()
            self._stores.pings.transact(lambda budget: (sending.paid(budget, now), None))
        self._remember(sending)

    def _remember(self, sending: Sending) -> None:
        """Before it is seen, so that even the first reply finds its session."""
        if sending.fork is None:
            return
        number, sent = int(sending.message.id), sending.at.timestamp()
        record = ForkMessage(number, sending.fork, sending.parent, sent)
        now = self._clock.now().timestamp()
        self._stores.fork_messages.transact(
            lambda known: (with_fork_message(known, record, now), None)
        )

    def _take_back(self, sending: Sending, reason: str) -> bool:
        """False if not even that can be written down: then it is sent at the next start."""
        now = self._clock.now()
        try:
            self._stores.outbox.append(NotSent(now, sending.message.id, reason))
        except errors.StorageError:
            _logger.exception("A message has to wait for the next start")
            return False
        try:
            if sending.payment:
                self._stores.pings.transact(lambda budget: (sending.given_back(budget, now), None))
        except errors.StorageError:
            _logger.exception("What a message had cost could not be given back")
        return True

    def _confirm(self, message_id: MessageId) -> None:
        try:
            self._stores.outbox.append(Sent(self._clock.now(), message_id))
            self._rows += 2
            if self._rows > _LONG:
                self._stores.outbox.compact(_fewest)
                self._rows = 0
        except errors.StorageError:  # it is in the log, where the next start finds it
            _logger.exception("That a message was sent could not be written down")


def _fewest(rows: Sequence[OutboxRow]) -> Sequence[OutboxRow]:
    return Outbox.of(rows).rows()
