"""What is owed to the owner when a message did not arrive, or nobody knows whether it did."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from ollim_bot.conversation.outbox.post_book import PostBook
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.outgoing import Failure, NotSent, Sending
from ollim_bot.domain.text import shortened
from ollim_bot.errors import StorageError

_LONGEST = 60

_logger = logging.getLogger(__name__)


class Tell(Protocol):
    """Tells the owner; what has the same key is told once, also across restarts."""

    async def __call__(self, sentence: str, *, key: str) -> object: ...


class Regrets:
    """Each bad end is made up for once; one that a crash has cut off, at the next start."""

    def __init__(self, book: PostBook, tell: Tell | None) -> None:
        self._book = book
        self._tell = tell

    async def settle(self, sending: Sending, failure: Failure) -> None:
        """Give back what it cost if it failed, and tell it; what cannot be done now is owed on."""
        try:
            # A sentence about a sentence that did not arrive would not arrive either.
            if failure.service and sending.message.author is not Author.PROGRAM:
                await self._say(sending.message, failure)
            await asyncio.to_thread(self._book.refund, sending, failure)
            await asyncio.to_thread(self._book.settle, failure)
        except StorageError:
            _logger.exception("What a message had cost has to be given back at the next start")

    async def _say(self, message: ChatMessage, failure: Failure) -> None:
        sentence = sentence_about(message, failure)
        if self._tell is None:
            _logger.warning("%s", sentence)
        else:
            await self._tell(sentence, key=f"message {message.id}")


def sentence_about(message: ChatMessage, failure: Failure) -> str:
    words, service = _first_words(message), failure.service.capitalize()
    if isinstance(failure, NotSent):
        why = failure.reason.rstrip(".")
        return f"This did not arrive on {service}: “{words}” ({why}). It is on the page."
    return f"I cannot tell whether this arrived on {service}: “{words}”. It is on the page."


def _first_words(message: ChatMessage) -> str:
    title = "" if message.card is None else message.card.title
    files = ", ".join(each.name for each in message.attachments)
    line = " ".join((message.text or title or files).split())
    return shortened(line, _LONGEST)
