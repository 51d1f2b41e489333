"""The owner's phone: how it is paired, and what of the log rings there."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.digest import OF_DIGEST
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.runtime_config import PushWhat

# The sentences about what happened while the bot did not run begin with these words.
ABSENCE = "While I was away"

# What the public servers take of one bot on a day of UTC, with what is replaced and cleared.
PER_DAY = 250
# The last of them are for what must come.
KEPT_FOR_MUST = 50


@dataclass(frozen=True, slots=True)
class Pairing:
    """A phone follows `topic` on `server`, and its buttons write to `reply_topic`.

    The names of the topics are keys: who knows them reads and answers what is shown there.
    """

    server: str
    topic: str = field(repr=False)
    reply_topic: str = field(repr=False)
    paired_at: datetime

    @property
    def identity(self) -> str:
        """Names the pairing in the database without giving its keys away."""
        return hashlib.blake2s(f"{self.server} {self.topic}".encode(), digest_size=12).hexdigest()


def is_pushed(message: ChatMessage, what: PushWhat) -> bool:
    """Whether the message rings on the phone; the conversation never does."""
    match what:
        case PushWhat.MUST:
            return message.must
        case PushWhat.ASKS:
            return message.must or _asks(message)
        case PushWhat.ALL:
            return message.must or _asks(message) or _comes_by_itself(message)


def _asks(message: ChatMessage) -> bool:
    """Whether it is a card that waits for an answer, a digest, or tells of an absence."""
    if message.author is Author.OWNER:
        return False
    if message.author is Author.PROGRAM and ABSENCE in message.text:
        return True
    is_of_job = bool(message.occurrence) and (message.card is not None or _is_heads_up(message))
    return is_of_job or message.id.startswith(OF_DIGEST) or is_announced(message)


def _is_heads_up(message: ChatMessage) -> bool:
    return Occurrence.parse(message.occurrence).comes_before is not None


def is_announced(message: ChatMessage) -> bool:
    """Whether it asks for something that no button of the phone may answer."""
    card = message.card
    if card is None or message.author is Author.OWNER:
        return False
    is_approval = any(each.action == "approve" and not each.is_used for each in card.buttons)
    is_question = card.is_question and message.author is Author.BACKGROUND
    return is_approval or is_question


def _comes_by_itself(message: ChatMessage) -> bool:
    is_of_job = message.author is Author.ASSISTANT and bool(message.job)
    return message.author is Author.BACKGROUND or is_of_job
