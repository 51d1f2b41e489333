"""The line of messages to a service that has to confirm them: one at a time, each to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from ollim_bot import errors
from ollim_bot.conversation.chat_log import ChatLog
from ollim_bot.conversation.outbox.passage import Instant, Passage
from ollim_bot.conversation.outbox.post_book import PostBook
from ollim_bot.conversation.outbox.regrets import Regrets
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.outgoing import Failure, Sending, Sent, Tried
from ollim_bot.ports import Clock, ConfirmedChannel

_ANSWER_WITHIN = 10.0
_LONGEST_CALL = 60.0
_LONGEST_PAUSE = 60.0
# With the pauses between them, some two minutes: what stands behind it has waited long enough then.
_READINGS = 8
_OTHERS = 500

_logger = logging.getLogger(__name__)

T = TypeVar("T")


class Delivery:
    """Messages arrive in the order in which they were added, each exactly once.

    What the service cannot be asked about waits, however long. What it cannot tell about is not
    repeated.
    """

    def __init__(
        self,
        courier: ConfirmedChannel,
        book: PostBook,
        chat: ChatLog,
        regrets: Regrets,
        clock: Clock,
    ) -> None:
        self._courier = courier
        self._book = book
        self._chat = chat
        self._regrets = regrets
        self._clock = clock
        self._line: dict[MessageId, Passage] = {}
        self._unkept: dict[MessageId, Passage] = {}
        self._is_wanted = asyncio.Event()
        self._is_back = asyncio.Event()

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._line

    def add(self, sending: Sending, last: Tried | None = None) -> Passage:
        """Put it at the end of the line; `last` is what is known of it from an earlier life."""
        passage = Passage.of(sending, self._parts(sending.message), last)
        self._line[passage.id] = passage
        self._unkept.pop(passage.id, None)
        self._is_wanted.set()
        return passage

    async def hand_over_unkept(self, sending: Sending) -> None:
        """One for which there is no room on the disk, as far as it goes now.

        Asked again, it goes on with what has not arrived. In line, it is not sent a second time.
        """
        passage = self._unkept.get(sending.message.id)
        if passage is None:
            passage = Passage.of(sending, self._parts(sending.message), None)
            self._unkept[passage.id] = passage
        with suppress(errors.Unreachable, errors.DeliveryFailed, errors.DeliveryUncertain):
            while not passage.is_whole:
                ref = await self._looked_for(passage) or await self._tried(passage)
                if ref is None:
                    return
                passage.arrived(ref)

    def last_try(self, message_id: MessageId) -> Tried | None:
        """What was done for it while there was no room."""
        passage = self._unkept.get(message_id)
        return None if passage is None else passage.last_try

    async def end_of(
        self, passage: Passage, within: float = _ANSWER_WITHIN
    ) -> Sent | Failure | None:
        """None if that takes longer than somebody can be kept waiting: it goes on nevertheless."""
        await self._first_of(passage.end, within)
        return passage.end.result() if passage.end.done() else None

    async def settle(self, within: float) -> None:
        """Wait for the end of all that is in line, but no longer than so many seconds."""
        if self._line:
            await self.end_of(next(reversed(self._line.values())), within)

    async def has_moved(self, within: float) -> bool:
        """Wait for the end of the first in line; False if there is none, or not by then."""
        if not self._line or within <= 0:
            return False
        return await self.end_of(next(iter(self._line.values())), within) is not None

    def nudge(self) -> None:
        """The service can be reached again: nothing more has to wait for its next try."""
        self._is_back.set()

    async def run(self) -> None:
        """Until cancelled; when it is run again, it goes on where it was."""
        in_vain = 0
        while True:
            while not self._line:
                self._is_wanted.clear()
                await self._is_wanted.wait()
            passage = next(iter(self._line.values()))
            if await self._has_gone_on(passage):
                in_vain = 0
            else:
                await self._pause(min(_LONGEST_PAUSE, 2.0**in_vain))
                in_vain = min(in_vain + 1, 10)

    async def _pause(self, seconds: float) -> None:
        self._is_back.clear()
        back = asyncio.ensure_future(self._is_back.wait())
        try:
            await self._first_of(back, seconds)
        finally:
            back.cancel()

    async def _first_of(self, future: asyncio.Future[Any], seconds: float) -> None:
        """Wait for it, but no longer than so many seconds."""
        alarm = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({future, alarm}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            alarm.cancel()

    async def _has_gone_on(self, passage: Passage) -> bool:
        try:
            return await self._moved(passage)
        except errors.Unreachable as silent:
            _logger.info("A message waits for %s: %s", self._courier.name, silent)
        except errors.StorageError:  # without its row, no try could be told from none
            _logger.warning("A message waits for the disk", exc_info=True)
        return False

    async def _moved(self, passage: Passage) -> bool:
        """Bring the next part over there, or the whole to its end; False if that has to wait."""
        if passage.is_whole:
            await self._note_arrival(passage)
            return True
        try:
            ref = await self._looked_for(passage)
        except (errors.DeliveryUncertain, errors.DeliveryFailed):
            return await self._has_given_up(passage)
        if ref is None:
            ref = await self._handed_over(passage)
        if ref is not None:
            passage.arrived(ref)
            await self._note_arrival(passage)
        return ref is not None or passage.end.done()

    async def _looked_for(self, passage: Passage) -> str | None:
        """Where the next part is, if it may have arrived already; None if it has not."""
        if not passage.must_be_looked_for(self._clock):
            return None
        ref = await self._found(passage)
        if ref is None:
            passage.surely_absent()
        return ref

    async def _found(self, passage: Passage) -> str | None:
        name, ids = self._courier.name, set(passage.refs)
        for message in await self._chat.page(_OTHERS, None):
            if message.id != passage.id:
                ids.update(message.refs.get(name, "").split())
        since = passage.earliest(self._clock)
        return await self._answer(
            self._courier.find(passage.part, passage.nonce, since, ids),
            errors.Unreachable("It takes too long to answer."),
        )

    async def _handed_over(self, passage: Passage) -> str | None:
        """None if it was refused, or if it cannot be said."""
        if passage.tried_at is None:
            row = await asyncio.to_thread(self._book.note_try, passage.id, passage.refs)
            passage.tried_at = row.at
        try:
            return await self._tried(passage)
        except errors.DeliveryFailed as refused:
            await self._refused(passage, str(refused))
        return None

    async def _tried(self, passage: Passage) -> str | None:
        """None if it cannot be said whether it arrived; raises `NotSent` if it surely did not."""
        was_in_doubt = passage.is_in_doubt
        if not was_in_doubt:
            passage.is_in_doubt, passage.first_try = True, Instant.of(self._clock)
        try:
            return await self._answer(
                self._courier.deliver(passage.part, passage.nonce),
                errors.DeliveryUncertain("It takes too long to answer."),
            )
        except errors.Unreachable:
            passage.is_in_doubt = was_in_doubt
            raise
        except errors.DeliveryUncertain as lost:
            _logger.info("A message may have arrived on %s: %s", self._courier.name, lost)
        except errors.DeliveryFailed:
            # That this try was refused says nothing about the ones before it: they are looked for.
            passage.is_in_doubt, passage.first_try = was_in_doubt, None
            if not was_in_doubt:
                raise
        return None

    async def _answer(self, call: Coroutine[Any, Any, T], late: errors.OllimError) -> T:
        """What the courier says, within a minute and in the words of its contract."""
        asked = asyncio.ensure_future(call)
        alarm = asyncio.ensure_future(self._clock.sleep(_LONGEST_CALL))
        try:
            await asyncio.wait({asked, alarm}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise late
            if asked.cancelled():  # not by us: a client that is being closed, say
                raise errors.DeliveryUncertain("It was broken off.")
            return asked.result()
        except (errors.DeliveryFailed, errors.Unreachable, errors.DeliveryUncertain):
            raise
        except Exception as wrong:  # whatever it is, the message may have arrived before it
            _logger.exception("%s has failed in an unforeseen way", self._courier.name)
            raise errors.DeliveryUncertain(str(wrong)) from wrong
        finally:
            asked.cancel()
            alarm.cancel()
            await asyncio.gather(asked, alarm, return_exceptions=True)

    async def _has_given_up(self, passage: Passage) -> bool:
        passage.readings += 1
        if passage.readings < _READINGS:
            return False
        name = self._courier.name
        await self._fail(
            passage, await asyncio.to_thread(self._book.give_up, passage.sending, name)
        )
        return True

    async def _refused(self, passage: Passage, reason: str) -> None:
        if passage.refs:
            reason = f"Only its beginning arrived. {reason}"
        name = self._courier.name
        failure = await asyncio.to_thread(self._book.take_back, passage.sending, reason, name)
        if failure is not None:
            await self._fail(passage, failure)

    async def _fail(self, passage: Passage, failure: Failure) -> None:
        if passage.refs:
            await self._is_recorded(passage)
        self._leave(passage, failure)
        await self._regrets.settle(passage.sending, failure)

    async def _note_arrival(self, passage: Passage) -> None:
        """With the last part it is delivered. What cannot be recorded now, the next start does."""
        is_recorded = await self._is_recorded(passage)
        if not passage.is_whole:
            return
        sent = Sent(self._clock.now(), passage.id, " ".join(passage.refs))
        if is_recorded:
            await asyncio.to_thread(self._book.confirm, sent.id, sent.ref)
        self._leave(passage, sent)

    async def _is_recorded(self, passage: Passage) -> bool:
        """Write down its ids over there, so that a reply by one of them is understood."""
        name, sending = self._courier.name, passage.sending
        try:
            await asyncio.to_thread(self._book.remember, sending, passage.refs)
            await self._chat.note_ref(sending.message, name, " ".join(passage.refs))
        except errors.StorageError:
            _logger.exception("Where a message has arrived could not be written down")
            return False
        return True

    def _leave(self, passage: Passage, end: Sent | Failure) -> None:
        del self._line[passage.id]
        passage.end.set_result(end)

    def _parts(self, message: ChatMessage) -> Sequence[ChatMessage]:
        try:
            return self._courier.parts(message) or (message,)
        except Exception:  # a fault of the courier's must not keep the bot from starting
            _logger.exception("%s could not divide a message", self._courier.name)
            return (message,)
