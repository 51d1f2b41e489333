"""The owner's phone: how it is paired, what rings there, and how the page shows it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime

from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.digest import OF_DIGEST
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.runtime_config import PushWhat

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
    if message.must or what is PushWhat.MUST:
        return message.must
    is_of_job = message.author is Author.ASSISTANT and bool(message.job)
    comes_by_itself = message.author is Author.BACKGROUND or is_of_job
    return _asks(message) or (what is PushWhat.ALL and comes_by_itself)


def _asks(message: ChatMessage) -> bool:
    """Whether it is a card that waits for an answer, a digest, or tells of an absence."""
    if message.author is Author.OWNER:
        return False
    if message.author is Author.PROGRAM and ABSENCE in message.text:
        return True
    if message.id.startswith(OF_DIGEST) or is_announced(message):
        return True
    if not message.occurrence:
        return False
    is_heads_up = Occurrence.parse(message.occurrence).comes_before is not None
    return message.card is not None or is_heads_up


def is_announced(message: ChatMessage) -> bool:
    """Whether it asks for something that no button of the phone may answer."""
    card = message.card
    if card is None or message.author is Author.OWNER:
        return False
    is_approval = any(each.action == "approve" and not each.is_used for each in card.buttons)
    is_question = card.is_question and message.author is Author.BACKGROUND
    return is_approval or is_question


# What the page can do with the phone.
PHONE_ACTIONS = frozenset({"pair", "cancel-pairing", "test-phone", "remove-phone"})


@dataclass(frozen=True, slots=True)
class PhoneOffer:
    """What the owner reads before a phone is paired.

    `public` is the address of a server that is open to all. `told` says what leaves the machine
    and who sees it, `of_public` who sees it there. `steps` are to be done on the phone.
    """

    public: str
    told: tuple[str, ...]
    of_public: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PhoneCode:
    """What a phone needs to follow the bot: two names, which are keys, and the code to scan.

    `picture` has the rows of the code with its border; `#` is dark.
    """

    topic: str = field(repr=False)
    reply_topic: str = field(repr=False)
    picture: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class PairingStatus:
    """`last_press` is None if no button was pressed since it was paired."""

    server: str
    since: datetime
    last_press: datetime | None = None


@dataclass(frozen=True, slots=True)
class PhoneAttempt:
    """A pairing that is not finished. It has a code, and an end, once the server was checked."""

    server: str
    code: PhoneCode | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class PhoneView:
    """The phone at `now`. `told` is how the last attempt ended; it failed if `has_failed`.

    `code` is that of the paired phone, if the owner wants to see it again.
    """

    now: datetime
    offer: PhoneOffer
    paired: PairingStatus | None = None
    attempt: PhoneAttempt | None = None
    code: PhoneCode | None = None
    told: str = ""
    has_failed: bool = False
