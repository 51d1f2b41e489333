"""The values that pass between us and Discord, and the channel's interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from ollim_bot.domain.cards import Card
from ollim_bot.domain.chat import Attachment
from ollim_bot.domain.inputs import InputId
from ollim_bot.errors import Unreachable

NAME = "discord"

_INPUT = "discord-"


def input_of(ref: str) -> InputId:
    """The input that a message of the owner becomes; `ref` is its id on Discord."""
    return InputId(f"{_INPUT}{ref}")


def ref_of(input_id: InputId) -> str | None:
    """The message that an input came from; None if it came from elsewhere."""
    return input_id.removeprefix(_INPUT) if input_id.startswith(_INPUT) else None


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One message as Discord takes it: text of 2000 characters at most, a card, ten files.

    `card_footer` is the small line at the foot of the card.
    """

    text: str = ""
    card: Card | None = None
    card_footer: str = ""
    files: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file that stands at Discord. `size` is what Discord says, `url` where it can be had."""

    name: str
    size: int
    url: str


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What Discord tells of a message that was forwarded. Who wrote it is not among that.

    `place` is where it stands: `this conversation`, `a server`, `another conversation`.
    """

    place: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """One message as it stands there now.

    `text` is what it says; one of the bot's that has no text says what its first card says.
    `forwarded` is set where all that it says, and its files, are a message from elsewhere;
    `quote_forwarded` where that is so of the quote. `nonce` is empty once Discord has forgotten it.
    `has_buttons` is whether it has any that can be pressed; `marks` are the emojis that the bot
    itself has put below it. `reply_to` is the id of the message that it replies to, and `quote` is
    what that one says.
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


class Hidden(Unreachable):
    """Discord answers, but does not show what stands there."""


class DmChannel(Protocol):
    """Each call ends within a minute.

    Raises `NotSent` where Discord refuses for good (a message that is gone, too), `Unreachable`
    where it certainly did nothing but may do it later, `Unsure` where the answer was lost. What
    only reads raises `Unreachable` alone, which is `Hidden` where asking again is of little use.
    """

    async def send(self, letter: OutgoingMessage, nonce: str) -> str:
        """Gives its id; the same as before where the nonce is remembered."""

    async def edit(self, ref: str, letter: OutgoingMessage) -> None:
        """The files of a message stay as they are."""

    async def delete(self, ref: str) -> None:
        """Nothing happens if it is gone already."""

    async def mark(self, ref: str, emoji: str) -> None: ...

    async def unmark(self, ref: str, emoji: str) -> None: ...

    async def show_typing(self) -> None:
        """For some ten seconds, or until the next message."""

    async def newest(self, limit: int) -> Sequence[ReceivedMessage]:
        """Oldest first, 100 at most."""

    async def after(self, ref: str) -> Sequence[ReceivedMessage]:
        """All that came after a message, oldest first, however many."""

    async def fetch(self, file: RemoteFile, target: Path, most: int) -> None:
        """Write its content to `target`. Raises `NotSent` where it is gone or larger than `most`
        bytes; then there is no `target`."""

    def pause_before_edit(self) -> float:
        """How many seconds an edit that could be left out should wait, so that by Discord's rate
        limits an edit that matters need not wait."""
