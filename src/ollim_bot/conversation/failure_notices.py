"""Tells the owner about messages that were refused or may not have arrived."""

from __future__ import annotations

import logging
from typing import Protocol

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.jobs import JobKind
from ollim_bot.domain.text import FROM_UNTRUSTED, counted, shortened
from ollim_bot.errors import StorageError
from ollim_bot.store.deliveries import Delivery, DeliveryState
from ollim_bot.store.store import Store

_LONGEST = 60
_AT_ONCE = 50

_logger = logging.getLogger(__name__)


class TellOwner(Protocol):
    """Tells the owner a sentence; once for each key, also across restarts."""

    async def __call__(self, sentence: str, *, key: str, for_reminder: bool) -> object: ...


class FailureNotices:
    """Reports each failed delivery once, also after a crash.

    A failed delivery of such a notice is not reported, since its notice would fail too.
    """

    def __init__(self, store: Store, tell: TellOwner) -> None:
        self._store = store
        self._tell = tell

    async def run(self) -> None:
        """Report failures until cancelled."""
        with self._store.changes("deliveries") as has_changed:
            while True:
                has_changed.clear()
                await self._store.until_writable()
                try:
                    await self._tell_all()
                except StorageError:
                    _logger.warning("A failed delivery has to be told later", exc_info=True)
                    has_changed.set()
                await has_changed.wait()

    async def _tell_all(self) -> None:
        while failed := await self._store.read(lambda tx: tx.deliveries.untold(_AT_ONCE)):
            for each in failed:
                await self._tell_of(each)

    async def _tell_of(self, delivery: Delivery) -> None:
        channel, message = delivery.channel, delivery.message
        if message.author is Author.PROGRAM:
            _logger.warning("A notice did not arrive on %s: %s", channel, delivery.reason)
        else:
            await self._tell(
                sentence_about(delivery),
                key=f"message {message.id} {channel}",
                for_reminder=message.occurrence.startswith(JobKind.REMINDER),
            )
        await self._store.transact(lambda tx: tx.deliveries.note_told(channel, message.id))


def sentence_about(delivery: Delivery) -> str:
    words, name = _first_words(delivery.message), delivery.channel.capitalize()
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
    return shortened(line, _LONGEST)
