"""Messages that wait for the end of the quiet, and the digest that brings them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.base.moments import clock_time, describe, elapsed
from ollim_bot.kernel.base.text import shortened
from ollim_bot.kernel.values.cards import Button
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.due_items import SNOOZE
from ollim_bot.kernel.values.item_messages import asked_item
from ollim_bot.kernel.values.pings import Charge

OF_DIGEST = "digest-"
SHOW_HELD, TURN_PAGE = "digest_show", "digest_page"
MOST_LINES = 20
MOST_LINES_WITH_BUTTONS = 10
LONGEST_PAGE = 1900

# A longer text is shortened, with a button that posts it.
_LONGEST_LINE = 600
_MOST_ROWS = 8
# Room for the headline and for `+N more`.
_AROUND = 40
# Discord takes 25 buttons; two of them turn pages.
_MOST_BUTTONS = 23
# The time alone names a message for so long.
_NAMED_BY_TIME = timedelta(hours=20)


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A message that waits, with what it cost and its session, if that is not the main one.

    Of the messages with one `key`, only the newest waits.
    """

    message: ChatMessage
    key: str = ""
    charge: Charge = Charge.NOTHING
    fork: SessionId | None = None
    parent: SessionId | None = None

    @property
    def item(self) -> str:
        """The key of the due item whose answer the message asks for; empty if it asks for none."""
        return asked_item(self.message)

    @property
    def needs_own_message(self) -> bool:
        """Whether a line cannot have all of it: its file, its own buttons, or its length."""
        item = self.item
        has_others = any(not item or item not in each.data for each in self._buttons)
        text = self.message.text.strip()
        is_long = len(text) > _LONGEST_LINE or len(text.splitlines()) > _MOST_ROWS
        return has_others or is_long or bool(self.message.attachments)

    @property
    def _buttons(self) -> Sequence[Button]:
        return () if self.message.card is None else self.message.card.buttons


@dataclass(frozen=True, slots=True)
class HeldMessages:
    """Oldest first."""

    waiting: tuple[HeldMessage, ...] = ()

    def has(self, message_id: MessageId) -> bool:
        return any(each.message.id == message_id for each in self.waiting)

    def with_new(self, held: HeldMessage) -> HeldMessages:
        """Add the message in place of one with its key, or with its id."""
        left = self.without_key(held.key).without(held.message.id)
        return HeldMessages((*left.waiting, held))

    def without(self, message_id: MessageId) -> HeldMessages:
        return HeldMessages(tuple(each for each in self.waiting if each.message.id != message_id))

    def without_key(self, key: str) -> HeldMessages:
        """Without the message of that key; an empty key is of none."""
        if not key:
            return self
        return HeldMessages(tuple(each for each in self.waiting if each.key != key))


@dataclass(frozen=True, slots=True)
class Digest:
    """One message with a line for each entry, which came at `at`; one of its pages is shown.

    An answer to an entry does not change the pages, so that no line changes its place. The
    last one ends with the `receipt` of the day, if there is one.
    """

    id: MessageId
    at: datetime
    entries: tuple[HeldMessage, ...]
    page: int = 0
    receipt: str = ""

    @classmethod
    def of(cls, held: Sequence[HeldMessage], now: datetime) -> Digest:
        """The digest of at least one message. Its id comes from the first, so that it is one."""
        entries = tuple(sorted(held, key=lambda each: each.message.at))
        return cls(MessageId(f"{OF_DIGEST}{held[0].message.id}"), now, entries)

    @property
    def pings(self) -> tuple[MessageId, ...]:
        return tuple(each.message.id for each in self.entries if each.charge is not Charge.NOTHING)

    @property
    def pages(self) -> list[tuple[HeldMessage, ...]]:
        """The entries of each page."""
        pages: list[list[HeldMessage]] = []
        room = lines = buttons = 0
        for entry in self.entries:
            size = len(line_of(entry, self.at)) + len("\n- ")
            needed = _most_buttons(entry)
            is_full = (
                size > room
                or len(pages[-1]) == MOST_LINES - bool(self.receipt)
                or (needed and lines == MOST_LINES_WITH_BUTTONS)
                or buttons + needed > _MOST_BUTTONS
            )
            if is_full:
                pages.append([])
                room, lines, buttons = LONGEST_PAGE - _AROUND - len(self.receipt), 0, 0
            pages[-1].append(entry)
            room, lines, buttons = room - size, lines + bool(needed), buttons + needed
        return [tuple(page) for page in pages]

    @property
    def has_buttons(self) -> bool:
        """Whether it is a card: a line asks something or can be shown, or there are more pages."""
        return len(self.pages) > 1 or any(map(_most_buttons, self.entries))

    def find(self, message_id: str) -> HeldMessage | None:
        return next((each for each in self.entries if each.message.id == message_id), None)


@dataclass(frozen=True, slots=True)
class Digests:
    """The newest digests with buttons, oldest first."""

    kept: tuple[Digest, ...] = ()

    def find(self, message_id: MessageId) -> Digest | None:
        return next((each for each in self.kept if each.id == message_id), None)

    def with_new(self, digest: Digest) -> Digests:
        return Digests((*self.kept, digest)[-10:])

    def changed(self, digest: Digest) -> Digests:
        return Digests(tuple(digest if each.id == digest.id else each for each in self.kept))


def _most_buttons(entry: HeldMessage) -> int:
    if entry.needs_own_message:
        return 1
    return sum(each.action != SNOOZE for each in entry._buttons) + 1 if entry.item else 0


def line_of(held: HeldMessage, now: datetime) -> str:
    message = held.message
    words = message.text
    if held.needs_own_message:
        words = words if message.card is None else message.card.title
        said = shortened(" ".join(words.split()), 200)
    else:
        said = "\n  ".join(filter(str.strip, words.splitlines()))
        said += f" ({message.footer})" if message.footer else ""
    job = message.job.removesuffix(".")
    is_named = job in ("", words.removesuffix(".")) or (held.item and job in words)
    name = "" if is_named else f"{job}: "
    local = message.at.astimezone(now.tzinfo).replace(second=0)
    is_of_today = timedelta() <= elapsed(message.at, now) < _NAMED_BY_TIME
    return f"{clock_time(local) if is_of_today else describe(local, now)} · {name}{said}"
