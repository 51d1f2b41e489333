"""The chat between owner and bot: a service that keeps its messages while the bot is off."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from chaos.record import Record
from chaos.years.virtual_time import VirtualTimePacer, VirtualWallClock
from ollim_bot.kernel.base.errors import DeliveryUncertain, OllimError, Unreachable
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.values.cards import Button, Card
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.events import AgentEvent
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import (
    ChatService,
    IncomingMessage,
    MessagePart,
    Status,
    TurnStart,
)

# For so long the service recognizes the nonce of a message that is sent again.
_NONCE_SECONDS = 180.0
# Only so many of the newest messages can be searched.
_SEARCHED_MESSAGES = 60
_MOST_CARDS = 40
_RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _SentMessage:
    id: int
    nonce: str
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class FoundButton:
    """A button, and the message and the title of its card."""

    message: MessageId
    button: Button
    title: str


class SimulatedChat:
    """A `Channel`, and the service behind it. While it `is_down`, neither side gets a message.

    The next `lost_responses` deliveries arrive, but the bot gets no confirmation. `service` is
    None while the bot does not run.
    """

    name = "discord"

    def __init__(self, record: Record, clock: VirtualWallClock, pacer: VirtualTimePacer) -> None:
        self.is_down = False
        self.lost_responses = 0
        self.service: ChatService | None = None
        self.cards: dict[MessageId, Card] = {}
        self._last_id = 0
        self._record = record
        self._clock = clock
        self._pacer = pacer
        self._rows: dict[str, dict[str, object]] = {}
        self._newest: deque[_SentMessage] = deque(maxlen=_SEARCHED_MESSAGES)
        self._unread: dict[int, str] = {}
        self._owner_wrote = asyncio.Event()
        self._connected = asyncio.Event()

    def send_as_owner(self, text: str) -> None:
        """Send a message to the bot; it is received at the next start if the bot is off."""
        number = self._add_message(text, is_ours=False)
        row = {"event": "said", "id": f"discord-{number}", "text": text}
        self._record.note("owner", row)
        self._unread[number] = text
        self._owner_wrote.set()

    def find_button(self, label: str, title: str = "") -> FoundButton | None:
        """The newest unused button with this label, on a card whose title starts with `title`."""
        for name, card in reversed(self.cards.items()):
            for each in card.buttons:
                if each.label == label and not each.is_used and card.title.startswith(title):
                    return FoundButton(name, each, card.title)
        return None

    async def run(self, service: ChatService) -> None:
        self.service = service
        self._connected.set()
        try:
            while True:
                await self._pass_on_unread(service)
                await self._owner_wrote.wait()
                self._owner_wrote.clear()
        finally:
            self.service = None
            self._connected.clear()

    async def _pass_on_unread(self, service: ChatService) -> None:
        while self._unread:
            number, text = next(iter(self._unread.items()))
            name = InputId(f"discord-{number}")
            if not self.is_down:
                try:
                    await service.receive(
                        IncomingMessage(name, self.name, text, refs={self.name: str(number)})
                    )
                    del self._unread[number]
                    continue
                except OllimError:
                    pass
            await self._clock.sleep(_RETRY_SECONDS)

    async def connected(self) -> str:
        await self._connected.wait()
        return "owner"

    async def present(self, _: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        self._pacer.note_activity()
        async for __ in events:
            self._pacer.note_activity()

    async def changed(self, status: Status) -> None:
        """Do nothing: no status is shown."""

    def concerns(self, message: ChatMessage) -> bool:  # noqa: ARG002
        return True

    def parts(self, message: ChatMessage) -> Sequence[ChatMessage]:
        return [message]

    async def take_drafts(self, _: ChatMessage, __: Sequence[ChatMessage]) -> Sequence[str]:
        """Return none: this channel shows no drafts."""
        return ()

    def discard(self, refs: Sequence[str]) -> None:
        """Do nothing: this channel shows no drafts."""

    def ended(self, _: ChatMessage, __: Sequence[str]) -> None:
        self._pacer.note_activity()

    async def deliver(self, part: MessagePart) -> str:
        if self.is_down:
            raise Unreachable("There is no network.")
        nonce = part.nonce
        known = next((each for each in self._newest if self._was_sent_with(each, nonce)), None)
        number = (
            known.id if known else self._add_message(part.content.text, is_ours=True, nonce=nonce)
        )
        self._show_card(part.content)
        if self.lost_responses:
            self.lost_responses -= 1
            raise DeliveryUncertain("No answer came.")
        return str(number)

    async def edit(self, ref: str, content: ChatMessage) -> None:
        if self.is_down:
            raise Unreachable("There is no network.")
        self._pacer.note_activity()
        if self._rows[ref]["text"] != content.text:
            self._rows[ref]["text"] = content.text
            self._record.note("discord", self._rows[ref])
        self._show_card(content)

    async def find(self, part: MessagePart, since: datetime, others: Collection[str]) -> str | None:
        if self.is_down:
            raise Unreachable("There is no network.")
        for each in reversed(self._newest):
            is_known = each.nonce == part.nonce
            is_same = is_known if self._is_nonce_known(each) else each.text == part.content.text
            if each.nonce and is_same and str(each.id) not in others:
                return str(each.id)
        if self._newest and self._newest[0].at > since.timestamp():
            raise DeliveryUncertain("There came too much after it.")
        return None

    def _show_card(self, message: ChatMessage) -> None:
        if message.card is not None:
            self.cards[message.id] = message.card
            while len(self.cards) > _MOST_CARDS:
                del self.cards[next(iter(self.cards))]

    def _was_sent_with(self, message: _SentMessage, nonce: str) -> bool:
        return message.nonce == nonce and self._is_nonce_known(message)

    def _is_nonce_known(self, message: _SentMessage) -> bool:
        return abs(self._clock.seconds - message.at) < _NONCE_SECONDS

    def _add_message(self, text: str, *, is_ours: bool, nonce: str = "") -> int:
        self._last_id += 1
        number, at = self._last_id, self._clock.utc()
        self._newest.append(_SentMessage(number, nonce, text, at.timestamp()))
        row = {"id": number, "is_ours": is_ours, "text": text, "at": at.isoformat(), "marks": []}
        self._rows[str(number)] = row
        self._record.note("discord", row)
        self._pacer.note_activity()
        return number
