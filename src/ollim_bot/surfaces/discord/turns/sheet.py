"""The drafts of one turn: which messages show it, and what stands in them."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ollim_bot.chat import TurnStart
from ollim_bot.domain.chat import Author, ChatMessage, MessageId, TurnId
from ollim_bot.surfaces.discord.channel import Letter
from ollim_bot.surfaces.discord.words.rendering import letter_of, parts_of
from ollim_bot.surfaces.discord.words.small_text import is_small
from ollim_bot.surfaces.discord.words.status_line import Live


@dataclass(slots=True, eq=False)
class Draft:
    """One message. `shown` is None while it is not known what stands there.

    `tried_at` is when it was first sent, while it is not known whether it arrived. One that
    `is_lost` is not drawn any more and cannot be taken over; one that `is_taken` is part of an
    answer, and no draft any more.
    """

    nonce: str
    ref: str | None = None
    shown: Letter | None = None
    tried_at: float | None = None
    is_lost: bool = False
    is_taken: bool = False


async def _no_drawing() -> None:
    pass


@dataclass(slots=True, eq=False)
class Sheet:
    """The drafts of one turn.

    `holder` is the message that takes them over. From part `void_from` on, its parts are new
    messages, and the drafts go. `is_overtaken` means that something was sent below the drafts that
    they have to follow. `is_over` means that the turn has ended, `is_closed` that it has ended
    without an answer. `stop` ends the drawing, and returns when no request is under way any more.
    """

    start: TurnStart
    live: Live = field(default_factory=Live)
    drafts: list[Draft] = field(default_factory=list)
    stop: Callable[[], Awaitable[None]] = _no_drawing
    announced_at: float | None = None
    holder: MessageId | None = None
    void_from: int | None = None
    in_fork: bool = False
    is_overtaken: bool = False
    is_over: bool = False
    is_closed: bool = False
    made: int = 0

    @property
    def turn(self) -> TurnId:
        return self.start.turn

    @property
    def text(self) -> str:
        """What was written so far."""
        pieces = self.live.text
        return "".join(piece.source for piece in pieces.done) + pieces.rest

    @property
    def has_text(self) -> bool:
        return bool(self.text.strip())

    @property
    def shows_words(self) -> bool:
        """Whether the owner may have read words of it by now, and not only status lines."""
        shown = [each.shown for each in self.drafts if each.ref is not None]
        return any(letter is None or not is_small(letter.text) for letter in shown)

    def stands_above(self, ref: str) -> bool:
        """Whether a draft that was not taken over yet stands above that message."""
        refs = (each.ref for each in self.drafts if not each.is_taken)
        return any(each is not None and int(each) < int(ref) for each in refs)

    def can_be_edited(self, index: int) -> bool:
        if index >= len(self.drafts):
            return False
        return self.drafts[index].ref is not None and not self.drafts[index].is_lost

    def cut_off(self) -> tuple[Letter, ...]:
        """What was written so far, as a message that ends there."""
        message = ChatMessage(
            MessageId(self.turn),
            self.start.at,
            Author.ASSISTANT,
            self.text,
            is_cut_off=True,
            in_fork=self.in_fork,
        )
        return tuple(letter_of(part) for part in parts_of(message))

    def at(self, index: int) -> Draft:
        """The draft there; a new one if there is none yet."""
        if index == len(self.drafts):
            self.drafts.append(Draft(_nonce(self.turn, self.made)))
            self.made += 1
        return self.drafts[index]

    def torn_off(self, index: int) -> list[Draft]:
        """Remove the drafts from there on, and give them."""
        rest = self.drafts[index:]
        del self.drafts[index:]
        return rest


def _nonce(turn: TurnId, number: int) -> str:
    """Always the same for the same draft, so that even a try that arrives late is known."""
    return hashlib.blake2s(f"{turn} {number}".encode(), digest_size=12).hexdigest()
