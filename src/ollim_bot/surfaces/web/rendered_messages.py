"""Messages as JSON for the page; recently rendered ones are cached."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from ollim_bot.domain.cards import Card
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.errors import OllimError
from ollim_bot.ports import ChatService
from ollim_bot.surfaces.web.frames import Json, card_json, message_json
from ollim_bot.surfaces.web.markdown import render

_KEPT = 300
# Longer texts are rendered in a thread: they would block the event loop.
_LONG = 2000


class RenderedMessages:
    def __init__(self, reception: ChatService, kept: int = _KEPT) -> None:
        self._reception = reception
        self._most = kept
        self._kept: dict[MessageId, tuple[ChatMessage, Json]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def shown(self, messages: Sequence[ChatMessage]) -> list[Json]:
        near = {message.id: message for message in messages}
        return [await self._shown(message, near) for message in messages]

    async def _shown(self, message: ChatMessage, near: dict[MessageId, ChatMessage]) -> Json:
        known, shown = self._kept.get(message.id, (None, {}))
        if known != message:
            # The text of a card is its plain form and would be shown twice.
            html = "" if message.card else await rendered(message.text)
            card = await _card_shown(message.card) if message.card else None
            shown = message_json(message, html, card, await self._replied_to(message, near))
        self._keep(message, shown)
        return shown

    async def _replied_to(
        self, message: ChatMessage, near: dict[MessageId, ChatMessage]
    ) -> ChatMessage | None:
        if message.reply_to is None:
            return None
        if message.reply_to in near:
            return near[message.reply_to]
        kept, _ = self._kept.get(message.reply_to, (None, {}))
        with suppress(OllimError):  # a message without its quote is better than none
            return kept or await self._reception.message(message.reply_to)
        return None

    def _keep(self, message: ChatMessage, shown: Json) -> None:
        self._kept.pop(message.id, None)
        self._kept[message.id] = (message, shown)
        if len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]


async def _card_shown(card: Card) -> Json:
    is_short = len(card.text) < _LONG
    return card_json(card) if is_short else await asyncio.to_thread(card_json, card)


async def rendered(text: str) -> str:
    return render(text) if len(text) < _LONG else await asyncio.to_thread(render, text)
