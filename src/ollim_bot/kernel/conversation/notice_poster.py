"""Notices of the program, posted and left for the agent; the gate of a full disk among them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from ollim_bot.kernel.base.clock import Clock, wait_until_set
from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import with_dates
from ollim_bot.kernel.base.settings import channel_label
from ollim_bot.kernel.base.text import FROM_UNTRUSTED, counted, shortened
from ollim_bot.kernel.conversation.message_poster import MessagePoster
from ollim_bot.kernel.conversation.state import ConversationState, StatusBoard
from ollim_bot.kernel.store.delivery_rows import Delivery, DeliveryState
from ollim_bot.kernel.store.steps import hold, leave_notice, new_notice, quiet_settings
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.digest import HeldMessage
from ollim_bot.kernel.values.notices import Notice
from ollim_bot.kernel.values.quiet import quiet_until
from ollim_bot.kernel.values.taint import Untrusted, marked_taint

_QUOTES_OTHERS = "a notice of the program that quotes somebody else"

_logger = logging.getLogger(__name__)


class Notices:
    """Tells each thing once, also across restarts, never during a turn and not while it is quiet.

    Things that occur together are told in one notice, and later ones are gathered for ten minutes;
    if a reminder or the conversation is at stake, only for seconds. A notice that cannot be
    committed is shown in the status until it can be.
    """

    def __init__(
        self,
        store: Store,
        state: ConversationState,
        poster: MessagePoster,
        board: StatusBoard,
        clock: Clock,
    ) -> None:
        self._store = store
        self._state = state
        self._poster = poster
        self._board = board
        self._clock = clock
        self._unkept: list[Notice] = []
        self._wanted = asyncio.Event()

    async def tell(
        self, sentence: str, *, key: str | None = None, for_reminder: bool = False
    ) -> StorageError | None:
        """Tell a sentence. What has the same `key` is told once; the default key is the sentence.

        Returns the error if the disk refuses; the notice is then kept in memory and committed
        later.
        """
        notice = new_notice(sentence, key=key, for_reminder=for_reminder)
        refused = None
        try:
            await self._keep(notice)
        except StorageError as error:  # the notice is kept in memory, and the caller goes on
            refused = error
            if not any(each.key == notice.key for each in self._unkept):
                _logger.warning("Told once it can be kept: %s", sentence, exc_info=True)
                self._unkept.append(notice)
                await self._show_unkept()
        self._wanted.set()
        return refused

    async def forget(self, key: str) -> None:
        """Drop the notice if it still waits. If its cause comes back, the owner is told again."""

        def step(tx: Transaction) -> None:
            record = tx.notices.get()
            waiting: set[str | None] = {each.id for each in record.untold if each.key == key}
            waiting |= {each.message.id for each in tx.held.get().waiting if each.key == _held(key)}
            tx.notices.put(record.withdrawn(key))
            tx.held.change(lambda held: held.without_key(_held(key)))
            if waiting:
                tx.updates.change(lambda pending: pending.without(waiting))

        await self._store.transact(step)

    async def run(self) -> None:
        """Post notices when the conversation allows it, until cancelled."""
        self._wanted.set()
        with self._store.changes("notices", event=self._wanted):
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                await self._post_in_time()

    async def flush(self) -> None:
        """Post it now, if the conversation is quiet."""
        now = self._clock.now()
        if self._state.is_idle:
            await self._store.transact(lambda tx: self._add_untold(tx, now))

    def _add_untold(self, tx: Transaction, now: datetime) -> None:
        record = tx.notices.get()
        untold = record.untold
        if not untold:
            return
        tx.notices.put(record.having_told(untold, now))
        until = quiet_until(quiet_settings(tx), now)
        # At the end of the quiet, the digest is about to come, and takes these along.
        if until is not None or tx.held.get().waiting:
            for each in untold:
                dated = replace(each, text=with_dates(each.text, now))
                message = _message(MessageId(each.id), [dated], now)
                hold(tx, HeldMessage(message, _held(each.key)), until or now)
            return
        self._poster.add_to_log(tx, _message(MessageId(f"notice-{untold[0].id}"), untold, now))

    async def _post_in_time(self) -> None:
        while self._unkept:
            await self._keep(self._unkept[0])
            self._unkept.pop(0)
            await self._show_unkept()
        # Wait for further notices. Each new one may shorten the wait, and none prolongs it.
        ends_at = await self._earliest()
        while (left := ends_at - self._clock.monotonic()) > 0:
            self._wanted.clear()
            await wait_until_set(self._wanted, self._clock, left)
            ends_at = min(ends_at, await self._earliest())
        if await self._untold():
            await self._state.until_idle()
            await self.flush()
            if await self._untold():
                self._wanted.set()

    async def _show_unkept(self) -> None:
        await self._board.show_unkept(self._unkept[0].text if self._unkept else "")

    async def _keep(self, notice: Notice) -> None:
        now = self._clock.now()
        await self._store.transact(lambda tx: leave_notice(tx, notice, now))

    async def _earliest(self) -> float:
        """When the notices that wait may be posted, on the monotonic clock."""
        record = await self._store.read(lambda tx: tx.notices.get())
        return self._clock.monotonic() + record.pause(self._clock.now()).total_seconds()

    async def _untold(self) -> Sequence[Notice]:
        return await self._store.read(lambda tx: tx.notices.get().untold)


def _message(name: MessageId, notices: Sequence[Notice], now: datetime) -> ChatMessage:
    text = "\n".join(each.text for each in notices)
    mark = marked_taint(",".join(each.untrusted for each in notices)).mark
    untrusted = Untrusted(mark, _QUOTES_OTHERS) if mark else None
    return ChatMessage(name, now, Author.PROGRAM, text, untrusted=untrusted)


def _held(key: str) -> str:
    return f"notice {key}"


R = TypeVar("R")


class DiskGate:
    """Repeats work that a full or failing disk stopped, until the disk takes it."""

    def __init__(self, store: Store, notices: Notices, clock: Clock) -> None:
        self._store = store
        self._notices = notices
        self._clock = clock

    async def commit(
        self,
        step: Step[R],
        hurry: asyncio.Event | None = None,
        notice: Notice | None = None,
        meanwhile: Callable[[], Awaitable[object]] | None = None,
    ) -> R:
        """Commit the step together with the notice, which is shown as a problem while it waits."""

        def both(tx: Transaction) -> R:
            if notice is not None:
                leave_notice(tx, notice, tx.now)
            return step(tx)

        if notice is not None:
            key, for_reminder = notice.key, notice.for_reminder
            meanwhile = partial(self._notices.tell, notice.text, key=key, for_reminder=for_reminder)
        return await self.repeat(partial(self._store.transact, both), hurry, meanwhile)

    async def repeat(
        self,
        work: Callable[[], Awaitable[R]],
        hurry: asyncio.Event | None = None,
        meanwhile: Callable[[], Awaitable[object]] | None = None,
    ) -> R:
        """Do the work, again while the disk refuses it. Once a day, tell the owner why it waits.

        `meanwhile` is called after each refusal. Once `hurry` is set, this raises `StorageError`
        instead of waiting.
        """
        while True:
            is_last = hurry is not None and hurry.is_set()
            try:
                return await work()
            except StorageError as refused:
                if is_last:
                    raise
                if meanwhile is not None:
                    await meanwhile()
                _logger.warning("Work stands still: %s", refused)
                key = f"{refused} {self._clock.now():%Y-%m-%d}"
                await self._notices.tell(str(refused), key=key, for_reminder=True)
                await wait_until_set(hurry or asyncio.Event(), self._clock, 5.0)


# So many seconds a failure is not told while another channel may still bring the message.
_UNTIL_MET = 90.0


class FailureNotices:
    """Reports each failed delivery once, also after a crash.

    What another channel has brought is no failure; while that is open, the report waits a
    little. A file may be missing there, so it is reported unless the message must come. A
    failed delivery of such a notice is not reported, since its notice would fail too.
    """

    def __init__(self, store: Store, tell: Callable[..., Awaitable[object]], clock: Clock) -> None:
        self._store = store
        self._tell = tell
        self._clock = clock
        self._waiting: dict[tuple[str, int], float] = {}

    async def run(self) -> None:
        """Report failures until cancelled."""
        with self._store.changes("deliveries") as has_changed:
            while True:
                has_changed.clear()
                await wait_until_set(has_changed, self._clock, await self._tell_all())

    async def _tell_all(self) -> float | None:
        """Report what may be reported; returns for how many seconds the others wait at most."""
        while True:
            failed = await self._store.read(_failures)
            self._waiting = {
                each.place: self._waiting.get(each.place, self._clock.monotonic() + _UNTIL_MET)
                for each, elsewhere in failed
                if DeliveryState.OPEN in elsewhere
            }
            now = self._clock.monotonic()
            waits = {place: end - now for place, end in self._waiting.items() if end > now}
            ready = [one for one in failed if _is_met(*one) or one[0].place not in waits]
            if not ready:
                return min(waits.values(), default=None)
            for each, elsewhere in ready:
                await self._conclude(each, is_met=_is_met(each, elsewhere))

    async def _conclude(self, delivery: Delivery, *, is_met: bool) -> None:
        channel, message = delivery.channel, delivery.message
        if is_met:
            _logger.info("A message that %s has not shown came by another channel", channel)
        elif message.author is Author.PROGRAM:
            _logger.warning("A notice did not arrive on %s: %s", channel, delivery.reason)
        else:
            await self._tell(
                sentence_about(delivery),
                key=f"message {message.id} {channel}",
                for_reminder=message.occurrence.startswith(JobKind.REMINDER),
            )
        await self._store.transact(lambda tx: tx.deliveries.note_told(channel, message.id))


def _failures(tx: Transaction) -> list[tuple[Delivery, set[DeliveryState]]]:
    """The failures that are not told yet, each with how far the other channels are."""
    return [
        (
            failed,
            {
                each.state
                for each in tx.deliveries.of_message(failed.message.id)
                if each.channel != failed.channel
            },
        )
        for failed in tx.deliveries.untold(50)
    ]


def _is_met(failed: Delivery, elsewhere: set[DeliveryState]) -> bool:
    message = failed.message
    is_whole = message.must or not message.attachments
    return is_whole and DeliveryState.CONFIRMED in elsewhere


def sentence_about(delivery: Delivery) -> str:
    message, name = delivery.message, channel_label(delivery.channel)
    title = "" if message.card is None else message.card.title
    line = " ".join((message.text or title or counted(len(message.attachments), "file")).split())
    # The agent is told these too, so they are not untrusted words or names of files.
    words = FROM_UNTRUSTED if message.untrusted is not None else shortened(line, 60)
    if delivery.state is DeliveryState.REFUSED:
        why = delivery.reason.rstrip(".")
        return f"This did not arrive on {name}: “{words}” ({why}). It is on the page."
    return f"I cannot tell whether this arrived on {name}: “{words}”. It is on the page."
