"""Surfaces that are slow, hang, stop too early, or record the order of everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from devtools.doubles.surface import RecordingSurface

from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.events import AgentEvent, TextStreamed
from ollim_bot.kernel.values.ports import Status, TurnStart


class SlowSurface(RecordingSurface):
    """Takes `moments` passes of the event loop to show a message."""

    def __init__(self, moments: int) -> None:
        super().__init__()
        self._moments = moments

    async def post(self, message: ChatMessage, change: int = 0) -> None:
        for _ in range(self._moments):
            await asyncio.sleep(0)
        await super().post(message, change)


class OrderedSurface(SlowSurface):
    """`seen` has messages by their text, turns as `turn`, and events by their type."""

    def __init__(self, moments: int = 5) -> None:
        super().__init__(moments)
        self.seen: list[str] = []

    async def post(self, message: ChatMessage, change: int = 0) -> None:
        await super().post(message, change)
        self.seen.append(message.text)

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        self.seen.append("turn")
        await super().present(start, self._noted(events))

    async def _noted(self, events: AsyncIterator[AgentEvent]) -> AsyncIterator[AgentEvent]:
        async for event in events:
            self.seen.append(type(event).__name__)
            yield event


class HangingSurface(RecordingSurface):
    """Calls of the methods named in `what` hang until `awake` is set."""

    def __init__(self, *what: str) -> None:
        super().__init__("hanging")
        self.awake = asyncio.Event()
        self._what = what

    async def post(self, message: ChatMessage, change: int = 0) -> None:
        await self._hang("post")
        await super().post(message, change)

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        await self._hang("present")
        await super().present(start, events)

    async def changed(self, status: Status) -> None:
        await self._hang("changed")
        await super().changed(status)

    async def _hang(self, what: str) -> None:
        if what in self._what:
            await self.awake.wait()


class AbandoningSurface(RecordingSurface):
    """Returns from `present` at the first word of a turn."""

    async def present(self, _: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        async for event in events:
            if isinstance(event, TextStreamed):
                return
