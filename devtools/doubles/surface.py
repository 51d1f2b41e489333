"""A surface that shows nothing and records everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ollim_bot.kernel.base.ids import TurnId
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.events import AgentEvent
from ollim_bot.kernel.values.ports import ChatService, Status, TurnStart


class RecordingSurface:
    """Doubles `ChatSurface`.

    `news` is notified of each recorded event. `is_broken` makes every method raise, as a faulty
    surface would. While `may_go_on` is cleared, it hangs in the middle of a turn.
    """

    def __init__(self, name: str = "recording") -> None:
        self.name = name
        self.posts: list[ChatMessage] = []
        self.starts: list[TurnStart] = []
        self.events: dict[TurnId, list[AgentEvent]] = {}
        self.statuses: list[Status] = []
        self.receptions: list[ChatService] = []
        self.is_broken = False
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.news = asyncio.Condition()

    @property
    def texts(self) -> list[str]:
        """The posted texts, in order."""
        return [message.text for message in self.posts]

    def posted_by(self, author: Author) -> list[str]:
        return [message.text for message in self.posts if message.author is author]

    async def run(self, reception: ChatService) -> None:
        self._fail()
        self.receptions.append(reception)
        await asyncio.Event().wait()

    async def post(self, message: ChatMessage, _: int = 0) -> None:
        self._fail()
        self.posts.append(message)
        await self._tell()

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        self._fail()
        self.starts.append(start)
        shown = self.events.setdefault(start.turn, [])
        await self._tell()
        async for event in events:
            await self.may_go_on.wait()
            shown.append(event)
            await self._tell()

    async def changed(self, status: Status) -> None:
        self._fail()
        self.statuses.append(status)
        await self._tell()

    async def _tell(self) -> None:
        async with self.news:
            self.news.notify_all()

    def _fail(self) -> None:
        if self.is_broken:
            raise RuntimeError(f"{self.name} is broken")
