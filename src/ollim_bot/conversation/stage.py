"""All surfaces at once: they show one conversation, from one message log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing

from ollim_bot.conversation.chat_log import ChatLog
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.events import AgentEvent
from ollim_bot.ports import ChatSurface, Status, TurnStart

_logger = logging.getLogger(__name__)


Send = Callable[[ChatMessage], Awaitable[None]]


class Stage:
    """`patience` is how many seconds a surface is waited for that does not keep up.

    `send` is the way of a message that has to be confirmed elsewhere, for which `elsewhere` is the
    name; it leads back to `show`.
    """

    def __init__(
        self,
        log: ChatLog,
        surfaces: Sequence[ChatSurface],
        *,
        send: Send | None = None,
        elsewhere: str = "",
        patience: float = 2.0,
    ) -> None:
        self._log = log
        self._send = send
        self._elsewhere = elsewhere
        self._screens = [Screen(surface, patience) for surface in surfaces]

    async def post(self, message: ChatMessage, *, said_on: str = "") -> None:
        """When it returns, the message is in the log; a surface that fails hurts nobody else.

        `said_on` is where the owner has said it, who is not told there what they have said.
        """
        if self._send is not None and said_on != self._elsewhere and self._is_new(message):
            await self._send(message)
        else:
            await self.show(message)

    async def show(self, message: ChatMessage) -> None:
        """Into the log, and on all surfaces."""
        kept = await self._log.add(message)
        await self._on_all(lambda surface: surface.post(kept))

    def _is_new(self, message: ChatMessage) -> bool:
        """Whether it did not come from there, nor was it posted before."""
        return self._elsewhere not in message.refs and self._log.recent(message.id) is None

    async def flash(self, message: ChatMessage) -> None:
        """Show a message that cannot be kept."""
        await self._on_all(lambda surface: surface.post(message))

    def posted(self, message_id: MessageId) -> ChatMessage | None:
        """One of the newest messages, if it is there."""
        return self._log.recent(message_id)

    def present(self, start: TurnStart) -> Presentation:
        return Presentation(start, self._screens)

    async def changed(self, status: Status) -> None:
        await self._on_all(lambda surface: surface.changed(status))

    async def _on_all(self, show: Callable[[ChatSurface], Awaitable[None]]) -> None:
        await asyncio.gather(*(screen.show(show) for screen in self._screens))


class Screen:
    """One surface. Nobody waits for it again while it is still busy with what took it too long."""

    def __init__(self, surface: ChatSurface, patience: float) -> None:
        self._surface = surface
        self._patience = patience
        self._begun: set[asyncio.Task[None]] = set()
        self._late: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        task.add_done_callback(self._late.discard)
        return task

    async def wait_for(self, task: asyncio.Task[None]) -> None:
        if not self._late:
            await asyncio.wait({task}, timeout=self._patience)
            if not task.done():
                _logger.warning("%s does not keep up", self._surface.name)
        if not task.done():
            self._late.add(task)

    async def show(self, show: Callable[[ChatSurface], Awaitable[None]]) -> None:
        await self.wait_for(self.begin(self._shown(show)))

    def present(
        self, start: TurnStart, queue: asyncio.Queue[AgentEvent | None]
    ) -> asyncio.Task[None]:
        return self.begin(self._presented(start, queue))

    async def _presented(self, start: TurnStart, queue: asyncio.Queue[AgentEvent | None]) -> None:
        async with aclosing(_events(queue)) as events:
            await self._shown(lambda surface: surface.present(start, events))
        await _drain(queue)

    async def _shown(self, show: Callable[[ChatSurface], Awaitable[None]]) -> None:
        try:
            await show(self._surface)
        except Exception:  # whatever a surface raises, the others and the bot go on
            _logger.exception("%s could not show something", self._surface.name)


class Presentation:
    """A turn that is being shown. No surface makes the turn or another surface wait."""

    def __init__(self, start: TurnStart, screens: Sequence[Screen]) -> None:
        self._shows = [_Show(screen, start) for screen in screens]

    def show(self, event: AgentEvent) -> None:
        for each in self._shows:
            each.queue.put_nowait(event)

    async def flush(self) -> None:
        """Wait, a moment at most, until everything is shown so far."""
        await asyncio.gather(*(each.flush() for each in self._shows))

    async def end(self, last: AgentEvent) -> None:
        self.show(last)
        await asyncio.gather(*(each.end() for each in self._shows))


class _Show:
    """A turn on one screen."""

    def __init__(self, screen: Screen, start: TurnStart) -> None:
        self.queue: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        self._screen = screen
        self._task = screen.present(start, self.queue)

    async def flush(self) -> None:
        await self._screen.wait_for(self._screen.begin(self.queue.join()))

    async def end(self) -> None:
        self.queue.put_nowait(None)
        await self._screen.wait_for(self._task)


async def _events(queue: asyncio.Queue[AgentEvent | None]) -> AsyncGenerator[AgentEvent, None]:
    while (event := await queue.get()) is not None:
        try:
            yield event
        finally:
            queue.task_done()
    queue.task_done()
    queue.put_nowait(None)


async def _drain(queue: asyncio.Queue[AgentEvent | None]) -> None:
    """What nobody shows any more must not keep `flush` waiting."""
    while await queue.get() is not None:
        queue.task_done()
    queue.task_done()
