"""Which messages a channel still sends after it was unreachable for long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from ollim_bot.kernel.base import errors
from ollim_bot.kernel.base.clock import Clock, wait_until_set
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.settings import channel_label
from ollim_bot.kernel.store.delivery_rows import Delivery, DeliveryState, part_nonce
from ollim_bot.kernel.store.message_log import Sender
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.channels import PushChannel
from ollim_bot.kernel.values.chat import OF_GREETING, Author, ChatMessage, as_number
from ollim_bot.kernel.values.forks import ForkMessage, with_fork_message
from ollim_bot.kernel.values.item_messages import may_have_come_since
from ollim_bot.kernel.values.ports import Channel, MessagePart


def is_late(message: ChatMessage, now: datetime) -> bool:
    return now - message.at > timedelta(hours=1)


def skip_late(
    tx: Transaction, channel: str, now: datetime, concerns: Callable[[ChatMessage], bool]
) -> None:
    """Close the deliveries that are too late to matter, and add one line about them.

    A delivery that was tried stays open: a part of the message may have arrived. The line leaves
    out what does not concern the channel.
    """
    late = [each for each in tx.deliveries.open(channel, 500) if _is_passed(tx, each, now)]
    for each in late:
        reason = "It was said while the channel was away."
        tx.deliveries.close(channel, each.message.id, now, reason)
    missed = [each for each in late if concerns(each.message)]
    if not missed:
        return
    number = "1 message was" if len(missed) == 1 else f"{len(missed)} messages were"
    begin, end, name = missed[0].message.at, missed[-1].message.at, channel_label(channel)
    when = f"{begin:%H:%M}" if begin == end else f"{begin:%d %B %H:%M} to {end:%d %B %H:%M}"
    words = f"{number} said while {name} could not be reached ({when}). They are on the page."
    line_id = MessageId(f"away-{channel}-{missed[0].logged.seq}")
    line = ChatMessage(line_id, now, Author.PROGRAM, words)
    tx.messages.add(line)
    for other in tx.channels.all():
        if other.name != channel:
            tx.deliveries.close(other.name, line.id, now)


def _is_passed(tx: Transaction, delivery: Delivery, now: datetime) -> bool:
    message = delivery.message
    is_begun = delivery.tries > 0 or bool(delivery.refs) or delivery.is_in_doubt
    if is_begun or not is_late(message, now) or message.card or message.occurrence:
        return False
    if message.author is Author.ASSISTANT:
        # It is sent where the owner wrote the preceding message.
        before = (each.message for each in reversed(tx.messages.page(50, message.id)))
        asked = next((each for each in before if each.author is Author.OWNER), None)
        there = tx.deliveries.get(delivery.channel, asked.id) if asked else None
        is_confirmed = there is not None and there.state is DeliveryState.CONFIRMED
        return asked is not None and not (is_confirmed and there and not there.parts)
    is_greeting = message.author is Author.PROGRAM and message.id.startswith(OF_GREETING)
    return message.author is Author.OWNER or is_greeting


_LONGEST_CALL = 60.0
_LONGEST_PAUSE = 60.0
# With the pauses between them about two minutes: later messages have waited long enough.
_READINGS = 8
# So long an answer waits for its draft to be edited; then it is sent anew.
_DRAFT_PATIENCE = 8.0
_OTHERS = 500
_AT_ONCE = 8_000
# Discord compares a nonce with those of "the past few minutes". A repeat that begins within two
# minutes arrives within three, since a call lasts one minute at most.
_REMEMBERED = 120.0
# A message is still found if our clock was, or is, wrong by this much.
_SKEW = timedelta(hours=1)

# To begin with a message, and to send it three times.
_TRIES_AT_ONCE = 4
_NO_ANSWER = "It is not known whether it has arrived."
_OTHERS_LEAD = "Another machine may lead by now, so this one sends nothing."

_logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(slots=True)
class PartAttempt:
    """What this process knows about one part that is being sent.

    `is_in_doubt`: the part may have arrived. `first_try` is the earliest try that may have brought
    it there, by the wall clock, which may be set, and by the steady one, which stops during sleep;
    None if another process made it. `readings` counts the look-ups without a result.
    `ref` is the part's id on the channel, from its arrival to its commit.
    """

    is_in_doubt: bool = False
    tried_at: datetime | None = None
    first_try: tuple[datetime, float] | None = None
    readings: int = 0
    ref: str | None = None

    def must_be_looked_up(self, clock: Clock) -> bool:
        """Whether sending it again could duplicate it."""
        is_remembered = False
        if self.first_try is not None:
            passed = (clock.now() - self.first_try[0]).total_seconds()
            steady = clock.monotonic() - self.first_try[1]
            is_remembered = 0 <= passed < _REMEMBERED and steady < _REMEMBERED
        return self.is_in_doubt and not is_remembered


@dataclass(slots=True)
class Unrecorded:
    """A message that was sent while the log could not be written."""

    parts: Sequence[ChatMessage]
    refs: list[str] = field(default_factory=list)
    attempt: PartAttempt = field(default_factory=PartAttempt)


class Transport:
    """Calls a channel: each call lasts a minute at most and raises only the contract's errors.

    Nothing is sent and nothing is edited unless `may_act` says so right before.
    """

    def __init__(self, channel: Channel, clock: Clock, may_act: Callable[[], bool]) -> None:
        self._channel = channel
        self._clock = clock
        self._may_act = may_act

    @property
    def name(self) -> str:
        return self._channel.name

    def concerns(self, message: ChatMessage) -> bool:
        try:
            return self._channel.concerns(message)
        except Exception:  # a fault of the channel must not lose a message
            _logger.exception("%s could not say whether a message is for it", self.name)
            return True

    def parts(self, message: ChatMessage) -> Sequence[ChatMessage]:
        try:
            return self._channel.parts(message) or (message,)
        except Exception:  # a fault of the channel must not block later messages
            _logger.exception("%s could not divide a message", self.name)
            return (message,)

    async def parts_of_any(self, message: ChatMessage) -> Sequence[ChatMessage]:
        """As `parts`; a long text is divided beside the loop, which that would hold up."""
        if len(message.text) <= _AT_ONCE:
            return self.parts(message)
        return await asyncio.to_thread(self.parts, message)

    async def drafts(self, message: ChatMessage, parts: Sequence[ChatMessage]) -> Sequence[str]:
        late = errors.Unreachable("It takes too long to stop drawing.")
        try:
            return await self._answer(self._channel.take_drafts(message, parts), late)
        except errors.DeliveryUncertain:
            return ()

    async def edit(self, ref: str, content: ChatMessage, within: float) -> None:
        if not self._may_act():
            raise errors.Unreachable(_OTHERS_LEAD)
        late = errors.DeliveryUncertain("It takes too long to answer.")
        await self._answer(self._channel.edit(ref, content), late, within)

    async def looked_up(
        self, part: MessagePart, attempt: PartAttempt, others: set[str]
    ) -> str | None:
        """The id of a part that may have arrived; None if it has not."""
        if not attempt.must_be_looked_up(self._clock):
            return None
        now = self._clock.now()
        since = min(attempt.tried_at or now, now) - _SKEW
        late = errors.Unreachable("It takes too long to answer.")
        found = await self._answer(self._channel.find(part, since, others), late)
        if found is None:
            attempt.is_in_doubt, attempt.readings = False, 0
            attempt.tried_at = attempt.first_try = None
        return found

    async def sent(self, part: MessagePart, attempt: PartAttempt) -> str | None:
        """The new id; None if the outcome is unknown. Raises `DeliveryFailed` if it never came."""
        if not self._may_act():
            raise errors.Unreachable(_OTHERS_LEAD)
        was_in_doubt = attempt.is_in_doubt
        if not was_in_doubt:
            attempt.is_in_doubt = True
            attempt.first_try = self._clock.now(), self._clock.monotonic()
        try:
            late = errors.DeliveryUncertain("It takes too long to answer.")
            return await self._answer(self._channel.deliver(part), late)
        except errors.Unreachable:
            attempt.is_in_doubt = was_in_doubt
            raise
        except errors.DeliveryUncertain as lost:
            _logger.info("A message may have arrived on %s: %s", self.name, lost)
        except errors.DeliveryFailed:
            # The refusal of this try leaves the earlier tries open: those are looked up.
            attempt.is_in_doubt, attempt.first_try = was_in_doubt, None
            if not was_in_doubt:
                raise
        return None

    def ended(self, message: ChatMessage, refs: Sequence[str]) -> None:
        self._tell(partial(self._channel.ended, message, refs))

    def discard(self, refs: Sequence[str]) -> None:
        self._tell(partial(self._channel.discard, refs))

    def _tell(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:  # a fault of the channel must not block the next message
            _logger.exception("%s failed in an unforeseen way", self.name)

    async def _answer(
        self, call: Coroutine[Any, Any, T], late: errors.OllimError, within: float = _LONGEST_CALL
    ) -> T:
        asked = asyncio.ensure_future(call)
        alarm = asyncio.ensure_future(self._clock.sleep(within))
        try:
            await asyncio.wait({asked, alarm}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise late
            # Raised by a client that is closing, not by a cancellation of this task.
            if asked.cancelled():
                raise errors.DeliveryUncertain("It was broken off.")
            return asked.result()
        except (errors.DeliveryFailed, errors.Unreachable, errors.DeliveryUncertain):
            raise
        except Exception as wrong:  # the message may have arrived before the fault
            _logger.exception("%s failed in an unforeseen way", self.name)
            raise errors.DeliveryUncertain(str(wrong)) from wrong
        finally:
            asked.cancel()
            alarm.cancel()
            await asyncio.gather(asked, alarm, return_exceptions=True)


class DeliveryQueue:
    """Sends the messages of one channel in the order of the log; edits have a loop of their own.

    What must come waits for no other message, but for the rest of one that has begun.

    With `suspects`, another process may have sent what is due for a while: it is looked up first.

    A message waits while the service cannot be reached. If the service cannot tell whether the
    message arrived, the delivery is given up and reported, never repeated.
    """

    def __init__(
        self, store: Store, channel: Channel, clock: Clock, *, suspects: bool = False
    ) -> None:
        self._store = store
        self._suspects = suspects or bool(store.sharing.machine)
        self._channel = channel
        self._is_joined = not isinstance(channel, PushChannel)
        self._transport = Transport(channel, clock, store.sharing.may_act)
        self._clock = clock
        self._attempts: dict[tuple[MessageId, int], PartAttempt] = {}
        self._draft_edits: dict[MessageId, float] = {}
        self._unrecorded: dict[MessageId, Unrecorded] = {}
        self._has_open = asyncio.Event()
        self._has_edits = asyncio.Event()
        self._is_back = asyncio.Event()

    @property
    def name(self) -> str:
        return self._channel.name

    def is_set_up(self) -> bool:
        """Whether there is somewhere to deliver to; it may look at a file."""
        return not isinstance(self._channel, PushChannel) or self._channel.is_set_up()

    def nudge(self) -> None:
        """Retry now: the service can be reached again."""
        self._is_back.set()

    async def run(self) -> None:
        """Deliver and edit until cancelled. Running it again continues where it stopped.

        A channel that only sends may be set up later, or never: until then nothing is looked at.
        """
        if isinstance(self._channel, PushChannel):
            with self._store.changes("channels") as changed:
                while not await self._store.read(lambda tx: tx.channels.is_joined(self.name)):
                    await changed.wait()
                    changed.clear()
            await self._channel.connected()
            self._is_joined = True
        lanes = [self._joined(), self._lane(self._deliver_next), self._lane(self._edit_next)]
        tasks = [asyncio.create_task(each) for each in lanes]
        try:
            with (
                self._store.changes("messages", "deliveries", event=self._has_open),
                self._store.changes("messages", "deliveries", event=self._has_edits),
            ):
                await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def deliver(self, message_id: MessageId) -> str:
        """Deliver this message alone, in a few tries; gives why it did not arrive, if it did not.

        For a program that ends then: nothing else is sent, and no pauses are made.
        """
        problem = _NO_ANSWER
        for _ in range(_TRIES_AT_ONCE):
            delivery = await self._store.read(lambda tx: tx.deliveries.get(self.name, message_id))
            if delivery is None or delivery.state is not DeliveryState.OPEN:
                return "" if delivery is None else delivery.reason
            try:
                await (self._advance(delivery) if delivery.parts else self._begin(delivery))
            except (errors.Unreachable, errors.DeliveryUncertain) as silent:
                problem = str(silent)
                break
        return problem

    async def hand_over(self, message: ChatMessage) -> None:
        """Send a message that cannot be committed now, as far as possible.

        A further call continues with the parts that have not arrived. The step that later adds the
        message to the log must call `recorded`, so that no part is sent twice.
        """
        if not self._is_joined or not self._transport.concerns(message):
            return
        held = self._unrecorded.get(message.id)
        if held is None:
            held = Unrecorded(await self._transport.parts_of_any(message))
            held = self._unrecorded.setdefault(message.id, held)
        known = await self._store.read(lambda tx: set(tx.deliveries.known_refs(self.name, _OTHERS)))
        with suppress(errors.Unreachable, errors.DeliveryFailed, errors.DeliveryUncertain):
            while (index := len(held.refs)) < len(held.parts):
                part = MessagePart(held.parts[index], index, part_nonce(message.id, index))
                ref = await self._transport.looked_up(part, held.attempt, known | {*held.refs})
                ref = ref or await self._transport.sent(part, held.attempt)
                if ref is None:
                    return
                held.refs.append(ref)
                held.attempt = PartAttempt()

    def recorded(self, tx: Transaction, message: ChatMessage) -> None:
        """Record in the delivery what `hand_over` has sent.

        Those parts are then edited, since their text said that the message could not be kept.
        """
        held = self._unrecorded.get(message.id)
        if held is None or not (held.refs or held.attempt.is_in_doubt):
            return
        parts = self._transport.parts(message)
        tx.deliveries.take_over(self.name, message.id, held.refs, parts, message.id)
        if held.attempt.is_in_doubt:
            tx.deliveries.require(self.name, message.id, held.refs, tx.now)

    async def _joined(self) -> None:
        identity = await self._channel.connected()

        async def join() -> bool:
            await self._store.transact(lambda tx: tx.channels.join(self.name, identity))
            return True

        await self._lane(join, repeats=False)

    async def _lane(self, work: Callable[[], Awaitable[bool]], *, repeats: bool = True) -> None:
        """Call `work` repeatedly, with growing pauses while it returns False."""
        in_vain = 0
        while True:
            await self._store.until_writable()
            is_done = False
            try:
                is_done = await work()
            except (errors.Unreachable, errors.DeliveryUncertain, errors.StorageError) as silent:
                # A try is committed before it is made.
                _logger.info("A message waits for %s: %s", self.name, silent)
            if is_done and not repeats:
                return
            if not is_done:
                self._is_back.clear()
                await wait_until_set(self._is_back, self._clock, min(_LONGEST_PAUSE, 2.0**in_vain))
            in_vain = 0 if is_done else min(in_vain + 1, 10)

    async def _deliver_next(self) -> bool:
        self._has_open.clear()
        delivery = await self._store.read(lambda tx: tx.deliveries.next_to_send(self.name))
        if delivery is not None and is_late(delivery.message, now := self._clock.now()):

            def step(tx: Transaction) -> Delivery | None:
                skip_late(tx, self.name, now, self._transport.concerns)
                return tx.deliveries.next_to_send(self.name)

            delivery = await self._store.transact(step)
        if delivery is None:
            self._attempts.clear()
            await self._has_open.wait()
            return True
        if not delivery.parts:
            await self._begin(delivery)
            return True
        return await self._advance(delivery)

    async def _begin(self, delivery: Delivery) -> None:
        """Freeze the parts, and let drafts of the answer become the first of them.

        What does not concern the channel ends here, unless a part of it may be there already.
        """
        message, name = delivery.message, self.name
        is_begun = delivery.is_in_doubt or bool(delivery.refs)
        if not is_begun and not self._transport.concerns(message):
            now = self._clock.now()
            await self._store.transact(lambda tx: tx.deliveries.close(name, message.id, now))
            return
        parts = await self._transport.parts_of_any(message)
        drafts = () if is_begun else await self._transport.drafts(message, parts)

        def step(tx: Transaction) -> Delivery | None:
            if drafts:
                after = tx.deliveries.take_over(name, message.id, drafts, parts, message.id)
                _record(tx, after)
                return after
            return tx.deliveries.freeze(name, message.id, parts)

        divided = await self._store.transact(step)
        self._conclude(divided)
        if drafts and divided is not None and divided.state is DeliveryState.OPEN:
            # Edit the drafts before further parts are sent; if it fails, after the last part.
            try:
                await self._edit(divided)
            except errors.DeliveryFailed:
                await self._drop_drafts(divided)

    async def _drop_drafts(self, delivery: Delivery) -> None:
        """Give up drafts that cannot be edited: the message is sent anew."""
        message_id = delivery.message.id
        self._draft_edits.pop(message_id, None)
        await self._store.transact(lambda tx: tx.deliveries.drop_drafts(self.name, message_id))
        self._transport.discard(delivery.refs)

    async def _advance(self, delivery: Delivery) -> bool:
        """Send the next part or end the delivery; False if it must wait."""
        message, index = delivery.message, len(delivery.refs)
        attempt = self._attempts.setdefault(
            (message.id, index), PartAttempt(delivery.is_in_doubt, delivery.tried_at)
        )
        part = MessagePart(delivery.parts[index], index, delivery.nonce)
        if attempt.ref is None:
            try:
                attempt.ref = await self._looked_up(delivery, part, attempt)
            except errors.DeliveryUncertain:
                attempt.readings += 1
                if attempt.readings < _READINGS:
                    return False
                await self._give_up(delivery)
                return True
            except errors.DeliveryFailed:
                await self._give_up(delivery)
                return True
        if attempt.ref is None:
            try:
                attempt.ref = await self._sent(delivery, part, attempt)
            except errors.DeliveryFailed as refused:
                await self._give_up(delivery, str(refused))
                return True
        if attempt.ref is None:
            return False
        await self._confirm(delivery, attempt.ref)
        return True

    async def _looked_up(
        self, delivery: Delivery, part: MessagePart, attempt: PartAttempt
    ) -> str | None:
        since = None
        if self._suspects and attempt == PartAttempt():
            since = may_have_come_since(delivery.message, self._clock.now())
        if since is None and not attempt.must_be_looked_up(self._clock):
            return None
        others = await self._store.read(
            lambda tx: set(tx.deliveries.known_refs(self.name, _OTHERS))
        )
        if since is not None:
            # A suspicion keeps nothing back: what cannot be looked for is sent.
            with suppress(errors.DeliveryUncertain, errors.DeliveryFailed):
                doubt = PartAttempt(is_in_doubt=True, tried_at=since)
                return await self._transport.looked_up(part, doubt, others)
            return None
        ref = await self._transport.looked_up(part, attempt, others)
        if ref is None:
            message_id = delivery.message.id
            await self._store.transact(lambda tx: tx.deliveries.note_absent(self.name, message_id))
        return ref

    async def _sent(
        self, delivery: Delivery, part: MessagePart, attempt: PartAttempt
    ) -> str | None:
        message_id, name, now = delivery.message.id, self.name, self._clock.now()
        if attempt.tried_at is None:
            await self._store.transact(
                lambda tx: tx.deliveries.note_try(name, message_id, delivery.parts, now)
            )
            attempt.tried_at = now
        try:
            return await self._transport.sent(part, attempt)
        except errors.Unreachable:
            if not attempt.is_in_doubt:
                await self._store.transact(lambda tx: tx.deliveries.note_absent(name, message_id))
                attempt.tried_at = None
            raise

    async def _confirm(self, delivery: Delivery, ref: str) -> None:
        message_id, name = delivery.message.id, self.name

        def step(tx: Transaction) -> Delivery | None:
            after = tx.deliveries.confirm_part(name, message_id, ref)
            _record(tx, after)
            return after

        self._conclude(await self._store.transact(step))

    def _conclude(self, delivery: Delivery | None) -> None:
        if delivery is not None and delivery.state is DeliveryState.CONFIRMED:
            self._forget(delivery)

    async def _give_up(self, delivery: Delivery, refusal: str | None = None) -> None:
        """End it: it was refused, or may have arrived."""
        message_id, now = delivery.message.id, self._clock.now()

        def step(tx: Transaction) -> None:
            if refusal is None:
                tx.deliveries.give_up(self.name, message_id, "It may have arrived.")
            else:
                reason = f"Only its beginning arrived. {refusal}" if delivery.refs else refusal
                tx.deliveries.refuse(self.name, message_id, reason, now)

        await self._store.transact(step)
        self._forget(delivery)

    def _forget(self, delivery: Delivery) -> None:
        message_id = delivery.message.id
        self._unrecorded.pop(message_id, None)
        for key in [each for each in self._attempts if each[0] == message_id]:
            del self._attempts[key]
        self._transport.ended(delivery.message, delivery.refs)

    async def _edit_next(self) -> bool:
        self._has_edits.clear()
        delivery = await self._store.read(lambda tx: tx.deliveries.next_edit(self.name))
        if delivery is None:
            await self._has_edits.wait()
            return True
        if _shows_draft(delivery):
            self._draft_edits.setdefault(delivery.message.id, self._clock.monotonic())
        try:
            # The bot cannot edit what the owner wrote on this channel.
            if delivery.message.author is not Author.OWNER or delivery.parts:
                await self._edit(delivery)
        except errors.DeliveryFailed as refused:
            _logger.info("A message on %s cannot be edited: %s", self.name, refused)
            if _shows_draft(delivery):
                await self._drop_drafts(delivery)
                return True
        except errors.DeliveryUncertain:
            # A draft that cannot be edited must not keep the answer back for long.
            began = self._draft_edits.get(delivery.message.id)
            if began is None or self._clock.monotonic() - began < _DRAFT_PATIENCE:
                raise
            await self._drop_drafts(delivery)
            return True
        self._draft_edits.pop(delivery.message.id, None)
        message_id, change = delivery.message.id, delivery.logged.change
        await self._store.transact(
            lambda tx: tx.deliveries.note_shown(self.name, message_id, change)
        )
        return True

    async def _edit(self, delivery: Delivery) -> None:
        """Edit every sent part; if the number of parts differs, as many as there are."""
        within = _DRAFT_PATIENCE if _shows_draft(delivery) else _LONGEST_CALL
        parts = await self._transport.parts_of_any(delivery.message)
        for ref, content in zip(delivery.refs, parts, strict=False):
            await self._transport.edit(ref, content, within)


def record_fork_message(
    tx: Transaction, message: ChatMessage, sender: Sender, refs: Sequence[str] = ()
) -> None:
    """Record which session said a message, under our id and the channel's, for replies to it.

    Messages of the main session are not recorded.
    """
    if sender.fork is None:
        return
    numbers = [as_number(each) for each in (message.id, *refs)]
    known = tx.fork_messages.get()
    for number in numbers:
        if number is not None:
            record = ForkMessage(number, sender.fork, sender.parent, message.at.timestamp())
            known = with_fork_message(known, record, tx.now.timestamp())
    tx.fork_messages.put(known)


def _record(tx: Transaction, delivery: Delivery | None) -> None:
    if delivery is not None:
        record_fork_message(tx, delivery.message, delivery.logged.sender, delivery.refs)


def _shows_draft(delivery: Delivery) -> bool:
    """Whether what the channel shows is still a draft of the answer."""
    return delivery.shown_change == 0 and delivery.message.turn is not None


# The owner may reply to a message before the service has confirmed it, which can take as long as
# its rate limits need to recover.
_UNTIL_KNOWN = 10.0


class DeliveryQueues:
    """Runs one queue for each channel; no channel waits for another."""

    def __init__(self, store: Store, queues: Sequence[DeliveryQueue], clock: Clock) -> None:
        self._store = store
        self._queues = queues
        self._clock = clock

    async def load(self) -> None:
        """Join every channel to the log, and remove channels that are no longer set up."""
        names = await asyncio.to_thread(
            lambda: {queue.name for queue in self._queues if queue.is_set_up()}
        )

        def step(tx: Transaction) -> None:
            for each in tx.channels.all():
                if each.name not in names:
                    tx.channels.leave(each.name)
            for name in sorted(names):
                tx.channels.join(name, "")

        await self._store.transact(step)

    async def run(self) -> None:
        """Run all queues until cancelled."""
        tasks = [asyncio.create_task(queue.run()) for queue in self._queues]
        try:
            await asyncio.gather(*tasks)
            await asyncio.Event().wait()
        finally:
            for task in tasks:
                task.cancel()

    def nudge(self) -> None:
        """Have all queues retry now."""
        for queue in self._queues:
            queue.nudge()

    async def by_ref(self, channel: str, ref: str) -> ChatMessage | None:
        """The message with this id on a channel. Waits for a confirmation that may be under way."""

        def look(tx: Transaction) -> tuple[ChatMessage | None, bool]:
            found = tx.deliveries.by_ref(channel, ref)
            is_over = tx.deliveries.next_open(channel) is None
            return (None if found is None else found.message), is_over

        async def found() -> tuple[ChatMessage | None, bool] | None:
            message, is_over = await self._store.read(look)
            return None if message is None and not is_over else (message, True)

        answer = await until(self._store, self._clock, found, _UNTIL_KNOWN)
        return None if answer is None else answer[0]

    async def by_refs(self, channel: str, newest: int) -> Mapping[str, ChatMessage]:
        return await self._store.read(lambda tx: tx.deliveries.known_refs(channel, newest))

    async def caught_up(self, channel: str, within: float | None = None) -> None:
        """Return when every message that is in the log now was confirmed or given up there."""
        last = await self._store.read(lambda tx: tx.messages.last_seq())

        async def is_over() -> bool | None:
            first = await self._store.read(lambda tx: tx.deliveries.next_open(channel))
            return True if first is None or first.logged.seq > last else None

        await until(self._store, self._clock, is_over, within)

    async def settle(self, within: float) -> None:
        """Wait until every channel has caught up, at most `within` seconds."""
        await asyncio.gather(*(self.caught_up(each.name, within) for each in self._queues))


async def until(
    store: Store, clock: Clock, question: Callable[[], Awaitable[T | None]], within: float | None
) -> T | None:
    """Ask after each commit until there is an answer; None after `within` seconds."""
    ends_at = None if within is None else clock.monotonic() + within
    with store.changes() as has_changed:
        while True:
            has_changed.clear()
            answer = await question()
            left = None if ends_at is None else ends_at - clock.monotonic()
            if answer is not None or (left is not None and left <= 0):
                return answer
            await wait_until_set(has_changed, clock, left)
