"""A surface that measures when a turn is first shown, and when its first words come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.events import AgentEvent, TextStreamed
from ollim_bot.domain.inbox import InputId
from ollim_bot.ports import ChatService, IncomingMessage, Status, TurnStart


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds from the arrival of a message to the first sign of its turn and to its words."""

    sign: float
    words: float


class TimingSurface:
    name = "bench"

    def __init__(self) -> None:
        self._reception: asyncio.Future[ChatService] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()
        self._is_answered = False
        self._sign = self._words = 0.0
        self._posted: dict[str, datetime] = {}
        self._has_posted = asyncio.Event()

    async def posted(self, words: str) -> datetime:
        """When a message with these words was first shown."""
        while words not in self._posted:
            self._has_posted.clear()
            await self._has_posted.wait()
        return self._posted[words]

    async def ask(self, words: str) -> Latency:
        reception = await self._reception
        self._ended.clear()
        self._is_answered = False
        self._sign = self._words = 0.0
        began = time.perf_counter()
        await reception.receive(IncomingMessage(InputId(str(uuid4())), self.name, words))
        await self._ended.wait()
        return Latency(self._sign - began, self._words - began)

    async def run(self, reception: ChatService) -> None:
        self._reception.set_result(reception)
        await asyncio.Event().wait()

    async def post(self, message: ChatMessage, _change: int = 0) -> None:
        self._is_answered |= message.author is Author.ASSISTANT
        self._posted.setdefault(message.text, datetime.now(UTC))
        self._has_posted.set()

    async def present(self, _: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        self._sign = time.perf_counter()
        async for event in events:
            if isinstance(event, TextStreamed) and not self._words:
                self._words = time.perf_counter()

    async def changed(self, status: Status) -> None:
        if self._is_answered and not status.is_busy:
            self._ended.set()
