"""Messages as JSON for the page; recently rendered ones are cached."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

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
        near, all_shown = {message.id: message for message in messages}, []
        for message in messages:
            known, shown = self._kept.pop(message.id, (None, {}))
            if known != message:
                # The text of a card is its plain form and would be shown twice.
                html = "" if message.card else await rendered(message.text)
                card = None
                if message.card is not None:
                    is_long = len(message.card.text) >= _LONG
                    draw = partial(card_json, message.card)
                    card = await asyncio.to_thread(draw) if is_long else draw()
                replied_to = near.get(message.reply_to) if message.reply_to else None
                if message.reply_to and replied_to is None:
                    replied_to = await self._found(message.reply_to)
                shown = message_json(message, html, card, replied_to)
            self._kept[message.id] = (message, shown)
            if len(self._kept) > self._most:
                del self._kept[next(iter(self._kept))]
            all_shown.append(shown)
        return all_shown

    async def _found(self, message_id: MessageId) -> ChatMessage | None:
        kept, _ = self._kept.get(message_id, (None, {}))
        with suppress(OllimError):  # a message without its quote is better than none
            return kept or await self._reception.message(message_id)
        return None


async def rendered(text: str) -> str:
    return render(text) if len(text) < _LONG else await asyncio.to_thread(render, text)
