"""What the bot sends by itself: written down before, confirmed after, never lost, never twice."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from ollim_bot import errors
from ollim_bot.conversation.chat_log import ChatLog
from ollim_bot.conversation.outbox.delivery import Delivery
from ollim_bot.conversation.outbox.post_book import PostBook
from ollim_bot.conversation.outbox.regrets import Regrets, Tell
from ollim_bot.conversation.stage import Stage
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.outgoing import NotSent, Sending, Tried
from ollim_bot.domain.runs import Run
from ollim_bot.ports import Clock, ConfirmedChannel
from ollim_bot.stores import Stores
from ollim_bot.tools.context import Payment

# Whoever answers to a message at once is not told that nobody knows it. What a service says of it
# may take as long as its allowance needs to be full again.
_UNTIL_KNOWN = 10.0
_BETWEEN_TRIES = 5.0

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
        courier: ConfirmedChannel | None = None,
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
        self._unshown: list[tuple[Sending, Tried | None]] = []
        self._has_unshown = asyncio.Event()

    async def load(self) -> None:
        """Bring to its end what a crash has cut off, or put it in line again."""
        outbox = await asyncio.to_thread(self._book.load)
        for sending, failure in outbox.unsettled:
            await self._regrets.settle(sending, failure)
        for sending in outbox.open:
            _logger.info("A message was cut off on its way")
            try:
                await self._show_again(sending, outbox.last_try(sending.message.id))
            except errors.StorageError:  # it stays in the outbox, and the bot starts nevertheless
                _logger.exception("A message that was cut off could not be sent now")
                self._show_later(sending, outbox.last_try(sending.message.id))

    async def run(self) -> None:
        """Deliver what is in line, and what waits for room on the disk, until cancelled."""
        work = [self._show_rest()]
        if self._delivery is not None:
            work.append(self._delivery.run())
        tasks = [asyncio.create_task(each) for each in work]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

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

    async def flash(self, message: ChatMessage) -> None:
        """Show what cannot be kept, wherever that is possible; to be sent when there is room.

        Asked again, only what has not arrived yet is tried again.
        """
        shown = self._marked(message)
        if self._chat.put_up(shown):
            await self._stage.flash(shown)
        if self._delivery is not None:
            await self._delivery.hand_over_unkept(Sending(self._clock.now(), message))

    async def post(self, message: ChatMessage) -> None:
        """Send what is said in the conversation. When it returns, it is in the log and in line.

        Raises `StorageError`; then it was not sent, and will not be.
        """
        sending = Sending(self._clock.now(), message)
        await asyncio.shield(asyncio.ensure_future(self._post(sending)))

    async def _post(self, sending: Sending) -> None:
        async with self._in_order:
            tried = self._tried(sending)
            await asyncio.to_thread(self._book.begin, sending, None, tried)
            if await self._is_shown(sending, tried) and self._delivery is not None:
                self._delivery.add(sending, tried)

    async def _send(self, sending: Sending, pay: Payment | None) -> bool:
        if self._delivery is None:
            return await self._posted(sending, pay)
        async with self._in_order:
            if self._is_known(sending):
                return True
            tried = self._tried(sending)
            begun = await self._begun(sending, pay, tried)
            if begun is None or not await self._is_shown_or_taken_back(begun, tried):
                return begun is not None
            passage = self._delivery.add(begun, tried)
        end = await self._delivery.end_of(passage)
        if isinstance(end, NotSent):
            raise errors.DeliveryFailed(end.reason)
        return True

    async def _posted(self, sending: Sending, pay: Payment | None) -> bool:
        """Where there is no courier, what is in the log is delivered."""
        if self._is_known(sending):
            return True
        begun = await self._begun(sending, pay)
        if begun is not None and await self._is_shown_or_taken_back(begun):
            await asyncio.to_thread(self._book.confirm, begun.message.id)
        return begun is not None

    def _tried(self, sending: Sending) -> Tried | None:
        """What was done for it while there was no room on the disk."""
        return None if self._delivery is None else self._delivery.last_try(sending.message.id)

    def _is_known(self, sending: Sending) -> bool:
        return self._chat.recent(sending.message.id) is not None

    async def _begun(
        self, sending: Sending, pay: Payment | None, tried: Tried | None = None
    ) -> Sending | None:
        try:
            return await asyncio.to_thread(self._book.begin, sending, pay, tried)
        except errors.StorageError as refused:
            raise errors.NotStored(str(refused)) from refused

    async def _is_shown_or_taken_back(self, begun: Sending, tried: Tried | None = None) -> bool:
        try:
            return await self._is_shown(begun, tried)
        except errors.StorageError as refused:
            raise errors.NotStored(str(refused)) from refused

    async def _is_shown(self, begun: Sending, tried: Tried | None = None) -> bool:
        """Put it into the log and on the page; False if that has to wait for room on the disk.

        Raises `StorageError` if it was taken back.
        """
        try:
            await asyncio.to_thread(self._book.remember, begun)
            await self._stage.show(self._marked(begun.message))
        except errors.StorageError as refused:
            if await asyncio.to_thread(self._book.take_back, begun, str(refused)) is not None:
                raise
            self._show_later(begun, tried)
            return False
        return True

    async def _show_again(self, sending: Sending, tried: Tried | None) -> None:
        """And go on with it from there."""
        await asyncio.to_thread(self._book.complete, sending)
        if await self._chat.find(sending.message.id) is None:
            await self._stage.show(self._marked(sending.message))
        if self._delivery is not None:
            self._delivery.add(sending, tried)
        else:
            await asyncio.to_thread(self._book.confirm, sending.message.id)

    def _show_later(self, sending: Sending, tried: Tried | None) -> None:
        self._unshown.append((sending, tried))
        self._has_unshown.set()

    async def _show_rest(self) -> None:
        """What stands in the outbox and could not be shown is, as soon as there is room."""
        while True:
            await self._has_unshown.wait()
            self._has_unshown.clear()
            while self._unshown:
                await self._clock.sleep(_BETWEEN_TRIES)
                try:
                    await self._show_again(*self._unshown[0])
                    self._unshown.pop(0)
                except errors.StorageError:
                    _logger.warning("A message waits for room", exc_info=True)

    def _marked(self, message: ChatMessage) -> ChatMessage:
        """With the courier's name, so that its surface does not show it a second time."""
        if self._courier is None:
            return message
        return replace(message, refs={**message.refs, self._courier.name: ""})
