"""What the bot sends by itself: written down before, confirmed after, never lost, never twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from ollim_bot.conversation.chat_log import ChatLog
from ollim_bot.conversation.stage import Stage
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.fork_messages import ForkMessage, with_fork_message
from ollim_bot.domain.outgoing import Charge, Outbox, OutboxRow, Sending, Sent
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.runs import Run
from ollim_bot.domain.sessions import SessionId
from ollim_bot.ports import Clock
from ollim_bot.stores import Stores
from ollim_bot.tools.server.bench import Payment

_LONG = 400

_logger = logging.getLogger(__name__)


class DurableOutbox:
    """A `Poster`. A message is delivered when it is in the message log, which the page shows."""

    def __init__(self, stores: Stores, chat: ChatLog, stage: Stage, clock: Clock) -> None:
        self._stores = stores
        self._chat = chat
        self._stage = stage
        self._clock = clock
        self._rows = 0

    async def load(self) -> None:
        """Send what a crash has cut off before it was in the log; the rest is done with."""
        await asyncio.to_thread(self._stores.outbox.compact, _fewest)
        rows = (await asyncio.to_thread(self._stores.outbox.read)).entries
        for sending in Outbox.of(rows).open:
            _logger.info("A message was cut off on its way")
            await self._deliver(sending.message)

    async def send(self, message: ChatMessage, run: Run, pay: Payment | None = None) -> bool:
        is_paid = await asyncio.to_thread(self._begin, message, run, pay)
        if is_paid:
            await asyncio.shield(asyncio.ensure_future(self._deliver(message)))
        return is_paid

    def _begin(self, message: ChatMessage, run: Run, pay: Payment | None) -> bool:
        """Payment and row are one step: neither is ever there without the other."""

        def step(budget: PingBudget) -> tuple[PingBudget, bool]:
            after, charge = (budget, Charge.NOTHING) if pay is None else pay(budget)
            if charge is None:
                return after, False
            self._stores.outbox.append(Sending(self._clock.now(), message, charge))
            return after, True

        is_paid = self._stores.pings.transact(step)
        if is_paid and run.session is not None and not run.is_main:
            self._remember(message, run.session, run.parent)
        return is_paid

    def _remember(self, message: ChatMessage, session: SessionId, parent: SessionId | None) -> None:
        """Before it is seen, so that even the first reply finds its session."""
        now = self._clock.now().timestamp()
        record = ForkMessage(int(message.id), session, parent, now)
        self._stores.fork_messages.transact(
            lambda known: (with_fork_message(known, record, now), None)
        )

    async def _deliver(self, message: ChatMessage) -> None:
        if self._chat.recent(message.id) is None:
            await self._stage.post(message)
        await asyncio.to_thread(self._confirm, message)

    def _confirm(self, message: ChatMessage) -> None:
        self._stores.outbox.append(Sent(self._clock.now(), message.id))
        self._rows += 2
        if self._rows > _LONG:
            self._stores.outbox.compact(_fewest)
            self._rows = 0


def _fewest(rows: Sequence[OutboxRow]) -> Sequence[OutboxRow]:
    return Outbox.of(rows).rows()
