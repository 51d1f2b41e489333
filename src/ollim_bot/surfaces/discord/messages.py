"""The values that are exchanged with Discord, and the interface of the owner's channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from ollim_bot.domain.cards import Card
from ollim_bot.domain.chat import Attachment
from ollim_bot.domain.inbox import InputId
from ollim_bot.errors import Unreachable

NAME = "discord"

_INPUT = "discord-"


def input_of(ref: str) -> InputId:
    """The id of the input that a message of the owner becomes."""
    return InputId(f"{_INPUT}{ref}")


def ref_of(input_id: InputId) -> str | None:
    """The message that an input came from; None if it came from another surface."""
    return input_id.removeprefix(_INPUT) if input_id.startswith(_INPUT) else None


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One message in Discord's limits: text of 2000 characters at most, a card, ten files.

    `card_footer` is the small line at the foot of the card. Without `has_previews` Discord fetches
    no address in the text to show a preview of it.
    """

    text: str = ""
    card: Card | None = None
    card_footer: str = ""
    files: tuple[Attachment, ...] = ()
    has_previews: bool = True


def without_previews(text: str) -> OutgoingMessage:
    """A text whose addresses may not be fetched; one without an address needs no such mark."""
    return OutgoingMessage(text, has_previews="://" not in text)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file at Discord. `size` is the size that Discord states."""

    name: str
    size: int
    url: str


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What Discord tells of a forwarded message, which does not include its author.

    `place` is where the original is: `this conversation`, `a server`, `another conversation`.
    """

    place: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """One message as Discord shows it now.

    `text` is its text; for a message of the bot without text, that of its first card. `forwarded`
    is set if its words and files are a forwarded message; `quote_forwarded` says the same of the
    quote. `nonce` is empty once Discord has forgotten it. `has_buttons` is True if a button can be
    pressed; `marks` are the bot's own reactions. `reply_to` is the id of the message that it
    replies to, and `quote` the words of that message.
    """

    ref: str
    at: datetime
    is_owners: bool
    is_ours: bool
    text: str = ""
    nonce: str = ""
    is_edited: bool = False
    has_card: bool = False
    has_buttons: bool = False
    marks: frozenset[str] = frozenset()
    files: tuple[RemoteFile, ...] = ()
    reply_to: str | None = None
    quote: str = ""
    forwarded: Forwarded | None = None
    quote_forwarded: Forwarded | None = None


class HistoryHidden(Unreachable):
    """Discord answers, but does not let the bot read the messages."""


class DmChannel(Protocol):
    """The owner's direct messages. Each call ends within a minute.

    Calls raise `DeliveryFailed` if Discord refuses for good (also if the message is gone),
    `Unreachable` if nothing was done and a later try may succeed, `DeliveryUncertain` if the
    outcome is unknown. Calls that only read raise `Unreachable`, or its subclass `HistoryHidden` if
    another try is of little use.
    """

    async def send(self, outgoing: OutgoingMessage, nonce: str) -> str:
        """Return the id of the message; the earlier id if Discord remembers the nonce."""

    async def edit(self, ref: str, outgoing: OutgoingMessage) -> None:
        """Replace text and card; the files of the message stay."""

    async def delete(self, ref: str) -> None:
        """Delete the message; do nothing if it is already gone."""

    async def mark(self, ref: str, emoji: str) -> None: ...

    async def unmark(self, ref: str, emoji: str) -> None: ...

    async def show_typing(self) -> None:
        """Show that the bot types, for some ten seconds or until the next message."""

    async def newest(self, limit: int) -> Sequence[ReceivedMessage]:
        """The newest messages, oldest first, 100 at most."""

    async def after(self, ref: str) -> Sequence[ReceivedMessage]:
        """All messages after `ref`, oldest first."""

    async def fetch(self, file: RemoteFile, target: Path, most: int) -> None:
        """Write the content to `target`.

        Raises `DeliveryFailed` if the file is gone or larger than `most` bytes; `target` then does
        not exist.
        """

    def pause_before_edit(self) -> float:
        """How many seconds an optional edit should wait to leave room in the rate limits."""
