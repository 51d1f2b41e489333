"""Tells the owner of messages that arrived nowhere."""

from __future__ import annotations

import logging
from typing import Protocol

from ollim_bot.clock import wait_until_set
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.text import FROM_UNTRUSTED, counted, shortened
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.settings import channel_label
from ollim_bot.store.deliveries import Delivery, DeliveryState
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

# So many seconds a failure is not told while another channel may still bring the message.
_UNTIL_MET = 90.0

_logger = logging.getLogger(__name__)


class TellOwner(Protocol):
    """Tells the owner a sentence; once for each key, also across restarts."""

    async def __call__(self, sentence: str, *, key: str, for_reminder: bool) -> object: ...


class FailureNotices:
    """Reports each failed delivery once, also after a crash.

    What another channel has brought is no failure; while that is open, the report waits a
    little. A file may be missing there, so it is reported unless the message must come. A
    failed delivery of such a notice is not reported, since its notice would fail too.
    """

    def __init__(self, store: Store, tell: TellOwner, clock: Clock) -> None:
        self._store = store
        self._tell = tell
        self._clock = clock
        self._waiting: dict[tuple[str, int], float] = {}

    async def run(self) -> None:
        """Report failures until cancelled."""
        with self._store.changes("deliveries") as has_changed:
            while True:
                has_changed.clear()
                await self._store.until_writable()
                pause = None
                try:
                    pause = await self._tell_all()
                except StorageError:
                    _logger.warning("A failed delivery has to be told later", exc_info=True)
                    has_changed.set()
                await wait_until_set(has_changed, self._clock, pause)

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
    words, name = _first_words(delivery.message), channel_label(delivery.channel)
    if delivery.state is DeliveryState.REFUSED:
        why = delivery.reason.rstrip(".")
        return f"This did not arrive on {name}: “{words}” ({why}). It is on the page."
    return f"I cannot tell whether this arrived on {name}: “{words}”. It is on the page."


def _first_words(message: ChatMessage) -> str:
    """The agent is told these too, so they are not untrusted words or names of files."""
    if message.untrusted is not None:
        return FROM_UNTRUSTED
    title = "" if message.card is None else message.card.title
    line = " ".join((message.text or title or counted(len(message.attachments), "file")).split())
    return shortened(line, 60)
