"""Where owner and bot write to each other: a service that lives on, whatever becomes of the bot."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from chaos.record import Record
from chaos.years.hurry import Pace, WallClock
from ollim_bot.domain.cards import Button, Card
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.events import AgentEvent
from ollim_bot.domain.inputs import InputId
from ollim_bot.errors import DeliveryUncertain, OllimError, Unreachable
from ollim_bot.ports import ChatService, IncomingMessage, MessagePart, Status, TurnStart

# So long does the service know what it was given, and nobody reads back farther than so many.
_REMEMBERS = 180.0
_NEWEST = 60
_CARDS = 40
_BETWEEN_TRIES = 5.0


@dataclass(frozen=True, slots=True)
class _Letter:
    id: int
    nonce: str
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class Found:
    """A button of a card with this title."""

    message: MessageId
    button: Button
    title: str


class Letters:
    """A `Channel`, and the service behind it. While it `is_down`, nothing gets through.

    The next `lost_answers` deliveries arrive, and nobody is told so.
    """

    name = "discord"

    def __init__(self, record: Record, clock: WallClock, pace: Pace) -> None:
        self.is_down = False
        self.lost_answers = 0
        self.reception: ChatService | None = None
        self.cards: dict[MessageId, Card] = {}
        self.written = 0
        self._record = record
        self._clock = clock
        self._pace = pace
        self._newest: deque[_Letter] = deque(maxlen=_NEWEST)
        self._unread: dict[int, str] = {}
        self._news = asyncio.Event()
        self._connected = asyncio.Event()

    def say(self, text: str) -> None:
        """The owner writes, whether the bot runs or not."""
        number = self._next(text, is_ours=False)
        row = {"event": "said", "id": f"discord-{number}", "text": text}
        self._record.note("owner", row)
        self._unread[number] = text
        self._news.set()

    def button(self, label: str, title: str = "") -> Found | None:
        """The newest such button that can be pressed, of a card whose title begins so."""
        for name, card in reversed(self.cards.items()):
            for each in card.buttons:
                if each.label == label and not each.is_used and card.title.startswith(title):
                    return Found(name, each, card.title)
        return None

    async def run(self, reception: ChatService) -> None:
        self.reception = reception
        self._connected.set()
        try:
            while True:
                await self._hand_over(reception)
                await self._news.wait()
                self._news.clear()
        finally:
            self.reception = None
            self._connected.clear()

    async def _hand_over(self, reception: ChatService) -> None:
        while self._unread:
            number, text = next(iter(self._unread.items()))
            name = InputId(f"discord-{number}")
            if not self.is_down:
                try:
                    await reception.receive(
                        IncomingMessage(name, self.name, text, refs={self.name: str(number)})
                    )
                    del self._unread[number]
                    continue
                except OllimError:
                    pass
            await self._clock.sleep(_BETWEEN_TRIES)

    async def connected(self) -> str:
        await self._connected.wait()
        return "owner"

    async def present(self, _: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        self._pace.stir()
        async for __ in events:
            self._pace.stir()

    async def changed(self, status: Status) -> None:
        """There is nobody to see it."""

    def parts(self, message: ChatMessage) -> Sequence[ChatMessage]:
        return [message]

    async def take_drafts(self, _: ChatMessage, __: Sequence[ChatMessage]) -> Sequence[str]:
        """Turns are not drawn here."""
        return ()

    def discard(self, refs: Sequence[str]) -> None:
        """There are no drafts."""

    def ended(self, _: ChatMessage, __: Sequence[str]) -> None:
        self._pace.stir()

    async def deliver(self, part: MessagePart) -> str:
        if self.is_down:
            raise Unreachable("There is no network.")
        nonce = part.nonce
        known = next((each for each in self._newest if self._is_remembered(each, nonce)), None)
        number = known.id if known else self._next(part.content.text, is_ours=True, nonce=nonce)
        self._show_card(part.content)
        if self.lost_answers:
            self.lost_answers -= 1
            raise DeliveryUncertain("No answer came.")
        return str(number)

    async def edit(self, _: str, content: ChatMessage) -> None:
        if self.is_down:
            raise Unreachable("There is no network.")
        self._pace.stir()
        self._show_card(content)

    async def find(self, part: MessagePart, since: datetime, others: Collection[str]) -> str | None:
        if self.is_down:
            raise Unreachable("There is no network.")
        for each in reversed(self._newest):
            is_known = each.nonce == part.nonce
            is_same = is_known if self._is_fresh(each) else each.text == part.content.text
            if each.nonce and is_same and str(each.id) not in others:
                return str(each.id)
        if self._newest and self._newest[0].at > since.timestamp():
            raise DeliveryUncertain("There came too much after it.")
        return None

    def _show_card(self, message: ChatMessage) -> None:
        if message.card is not None:
            self.cards[message.id] = message.card
            while len(self.cards) > _CARDS:
                del self.cards[next(iter(self.cards))]

    def _is_remembered(self, letter: _Letter, nonce: str) -> bool:
        return letter.nonce == nonce and self._is_fresh(letter)

    def _is_fresh(self, letter: _Letter) -> bool:
        return abs(self._clock.seconds - letter.at) < _REMEMBERS

    def _next(self, text: str, *, is_ours: bool, nonce: str = "") -> int:
        self.written += 1
        number, at = self.written, self._clock.utc()
        self._newest.append(_Letter(number, nonce, text, at.timestamp()))
        row = {"id": number, "is_ours": is_ours, "text": text, "at": at.isoformat(), "marks": []}
        self._record.note("discord", row)
        self._pace.stir()
        return number
