"""Messages that wait for the end of the quiet, and the digest that brings them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.moments import clock_time, describe, elapsed
from ollim_bot.domain.pings import Charge
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.taint import Untrusted, marked_taint
from ollim_bot.domain.text import shortened

_HEADLINE = "While it was quiet:"
_BELOW = "(below)"
_WITH_OTHERS = "messages that waited, some of them written after reading untrusted text"
_LONGEST_ABOVE = 80
# A time alone names the last of its day.
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
    def needs_own_message(self) -> bool:
        """Whether it has a button or a file, which a line of the digest cannot have."""
        card = self.message.card
        return bool(self.message.attachments) or (card is not None and bool(card.buttons))


@dataclass(frozen=True, slots=True)
class HeldMessages:
    """Oldest first."""

    waiting: tuple[HeldMessage, ...] = ()

    def has(self, message_id: MessageId) -> bool:
        return any(each.message.id == message_id for each in self.waiting)

    def with_new(self, held: HeldMessage) -> HeldMessages:
        """Add the message in place of one with its key, or with its id."""
        left = (
            each
            for each in self.without_key(held.key).waiting
            if each.message.id != held.message.id
        )
        return HeldMessages((*left, held))

    def without_key(self, key: str) -> HeldMessages:
        """Without the message of that key; an empty key is of none."""
        if not key:
            return self
        return HeldMessages(tuple(each for each in self.waiting if each.key != key))


@dataclass(frozen=True, slots=True)
class Digest:
    """`message` has a line for each message that waited; `following` come after it, in order."""

    message: ChatMessage
    charge: Charge
    following: tuple[HeldMessage, ...]


def digest_of(held: Sequence[HeldMessage], now: datetime) -> Digest:
    """The digest of at least one message. Its id comes from the first, so that it is one."""
    in_lines = [each for each in held if not each.needs_own_message]
    pings = tuple(each.message.id for each in in_lines if each.charge is not Charge.NOTHING)
    message = ChatMessage(
        MessageId(f"digest-{held[0].message.id}"),
        now,
        Author.BACKGROUND,
        "\n".join([_HEADLINE, *(_line(each, now) for each in held)]),
        pings=pings,
        untrusted=_untrusted(held),
    )
    charge = Charge.TOKEN if pings else Charge.NOTHING
    following = tuple(each for each in held if each.needs_own_message)
    return Digest(message, charge, following)


def _untrusted(held: Sequence[HeldMessage]) -> Untrusted | None:
    marks = [each.message.untrusted.source for each in held if each.message.untrusted is not None]
    mark = marked_taint(",".join(marks)).mark
    return Untrusted(mark, _WITH_OTHERS) if mark else None


def _line(held: HeldMessage, now: datetime) -> str:
    message = held.message
    words = message.text
    if held.needs_own_message:
        words = words if message.card is None else message.card.title
        said = f"{shortened(' '.join(words.split()), _LONGEST_ABOVE)} {_BELOW}"
    else:
        said = "\n  ".join(filter(str.strip, words.splitlines()))
        said += f" ({message.footer})" if message.footer else ""
    job = message.job.removesuffix(".")
    name = "" if job in ("", words.removesuffix(".")) else f"{job}: "
    return f"- {_time(message.at, now)} · {name}{said}"


def _time(moment: datetime, now: datetime) -> str:
    local = moment.astimezone(now.tzinfo).replace(second=0)
    is_named = timedelta() <= elapsed(moment, now) < _NAMED_BY_TIME
    return clock_time(local) if is_named else describe(local, now)
