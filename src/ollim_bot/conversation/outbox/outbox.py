"""What the bot sends by itself: written down before, confirmed after, never lost, never twice."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from ollim_bot import errors
from ollim_bot.chat import Courier
from ollim_bot.conversation.chat_log import ChatLog
from ollim_bot.conversation.outbox.delivery import Delivery
from ollim_bot.conversation.outbox.post_book import PostBook
from ollim_bot.conversation.outbox.regrets import Regrets, Tell
from ollim_bot.conversation.stage import Stage
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.outgoing import NotSent, Sending
from ollim_bot.domain.runs import Run
from ollim_bot.ports import Clock
from ollim_bot.stores import Stores
from ollim_bot.tools.server.bench import Payment

# Whoever answers to a message at once is not told that nobody knows it. What a service says of it
# may take as long as its allowance needs to be full again.
_UNTIL_KNOWN = 10.0

_logger = logging.getLogger(__name__)


class DurableOutbox:
    """A `Poster`. A message is delivered when it is in the message log, which the page shows; with
    a courier, when that one has given it an id.

    From the moment that its row is in the outbox it will be paid for and delivered, each once; only
    if that is known to have failed is it taken back, with what it cost.
    """

    def __init__(
        self,
        stores: Stores,
        chat: ChatLog,
        stage: Stage,
        clock: Clock,
        courier: Courier | None = None,
        tell: Tell | None = None,
    ) -> None:
        self._chat = chat
        self._stage = stage
        self._clock = clock
        self._book = PostBook(stores, clock)
        self._regrets = Regrets(self._book, tell)
        self._courier = courier
        self._delivery = (
            None if courier is None else Delivery(courier, self._book, chat, self._regrets, clock)
        )
        self._in_order = asyncio.Lock()

    async def load(self) -> None:
        """Bring to its end what a crash has cut off, or put it in line again."""
        outbox = await asyncio.to_thread(self._book.load)
        for sending, failure in outbox.unsettled:
            await self._regrets.settle(sending, failure)
        for sending in outbox.open:
            _logger.info("A message was cut off on its way")
            try:
                await self._show_again(sending)
            except errors.StorageError:  # it stays in the outbox, and the bot starts nevertheless
                _logger.exception("A message that was cut off could not be sent now")
                continue
            if self._delivery is not None:
                self._delivery.add(sending, outbox.last_try(sending.message.id))
            else:
                await asyncio.to_thread(self._book.confirm, sending.message.id)

    async def run(self) -> None:
        """Deliver what is in line, until cancelled; without a courier there is nothing to do."""
        if self._delivery is not None:
            await self._delivery.run()

    async def settle(self, within: float) -> None:
        """Wait, so many seconds at most, until what is in line has arrived."""
        if self._delivery is not None:
            await self._delivery.settle(within)

    async def by_ref(self, surface: str, ref: str) -> ChatMessage | None:
        """The message that bears this id there, which may be seen before we are told of it."""
        end = self._clock.monotonic() + _UNTIL_KNOWN
        found = await self._chat.by_ref(surface, ref)
        while found is None and await self._has_moved(end - self._clock.monotonic()):
            found = await self._chat.by_ref(surface, ref)
        return found

    async def _has_moved(self, within: float) -> bool:
        return self._delivery is not None and await self._delivery.has_moved(within)

    def nudge(self) -> None:
        """Whoever has to confirm what is sent can be reached again."""
        if self._delivery is not None:
            self._delivery.nudge()

    def is_on_its_way(self, message_id: MessageId) -> bool:
        """Whether it was accepted and is not delivered yet: it will be, when that is possible."""
        return self._delivery is not None and message_id in self._delivery

    async def send(self, message: ChatMessage, run: Run, pay: Payment | None = None) -> bool:
        fork = None if run.is_main else run.session
        parent = None if fork is None else run.parent
        sending = Sending(self._clock.now(), message, fork=fork, parent=parent)
        # Whoever gives up waiting must not leave it half-way until the next start.
        return await asyncio.shield(asyncio.ensure_future(self._send(sending, pay)))

    async def post(self, message: ChatMessage) -> None:
        """Send what is said in the conversation. When it returns, it is in the log and in line.

        Raises `StorageError`; then it was not sent, and will not be.
        """
        sending = Sending(self._clock.now(), message)
        await asyncio.shield(asyncio.ensure_future(self._post(sending)))

    async def _post(self, sending: Sending) -> None:
        async with self._in_order:
            await asyncio.to_thread(self._book.begin, sending, None)
            if await self._is_shown(sending) and self._delivery is not None:
                self._delivery.add(sending)

    async def _send(self, sending: Sending, pay: Payment | None) -> bool:
        if self._delivery is None:
            return await self._posted(sending, pay)
        async with self._in_order:
            if self._is_known(sending):
                return True
            begun = await self._begun(sending, pay)
            if begun is None or not await self._is_shown_or_taken_back(begun):
                return begun is not None
            passage = self._delivery.add(begun)
        end = await self._delivery.end_of(passage)
        if isinstance(end, NotSent):
            raise errors.NotSent(end.reason)
        return True

    async def _posted(self, sending: Sending, pay: Payment | None) -> bool:
        """Where there is no courier, what is in the log is delivered."""
        if self._is_known(sending):
            return True
        begun = await self._begun(sending, pay)
        if begun is not None and await self._is_shown_or_taken_back(begun):
            await asyncio.to_thread(self._book.confirm, begun.message.id)
        return begun is not None

    def _is_known(self, sending: Sending) -> bool:
        return self._chat.recent(sending.message.id) is not None

    async def _begun(self, sending: Sending, pay: Payment | None) -> Sending | None:
        try:
            return await asyncio.to_thread(self._book.begin, sending, pay)
        except errors.StorageError as refused:
            raise errors.NotSent(str(refused)) from refused

    async def _is_shown_or_taken_back(self, begun: Sending) -> bool:
        try:
            return await self._is_shown(begun)
        except errors.StorageError as refused:
            raise errors.NotSent(str(refused)) from refused

    async def _is_shown(self, begun: Sending) -> bool:
        """Put it into the log and on the page; False if that has to wait for the next start.

        Raises `StorageError` if it was taken back.
        """
        try:
            await asyncio.to_thread(self._book.remember, begun)
            await self._stage.show(self._marked(begun.message))
        except errors.StorageError as refused:
            if await asyncio.to_thread(self._book.take_back, begun, str(refused)) is not None:
                raise
            return False
        return True

    async def _show_again(self, sending: Sending) -> None:
        await asyncio.to_thread(self._book.complete, sending)
        if await self._chat.find(sending.message.id) is None:
            await self._stage.show(self._marked(sending.message))

    def _marked(self, message: ChatMessage) -> ChatMessage:
        """With the courier's name, so that its surface does not show it a second time."""
        if self._courier is None:
            return message
        return replace(message, refs={**message.refs, self._courier.name: ""})
