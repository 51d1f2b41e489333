"""Shows the log, running turns and the status on every surface."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import replace

from ollim_bot.domain.chat import ChatMessage, MessageId, TurnId
from ollim_bot.domain.events import AgentEvent, TurnEnded
from ollim_bot.errors import StorageError
from ollim_bot.ports import ChatSurface, Status, Surface, TurnStart
from ollim_bot.store.messages import LoggedMessage
from ollim_bot.store.store import Store

_AT_ONCE = 100

_logger = logging.getLogger(__name__)


class SurfaceFanout:
    """`surfaces` follow the log; `others` show only turns and the status.

    A surface that fails or is slow delays neither the bot nor another surface. A call to it is
    awaited for `patience` seconds at most.
    """

    def __init__(
        self,
        store: Store,
        surfaces: Sequence[ChatSurface],
        others: Sequence[Surface] = (),
        *,
        patience: float = 2.0,
    ) -> None:
        self._store = store
        self._followers = [_Lane(surface, patience) for surface in surfaces]
        self._lanes = [*self._followers, *(_Lane(surface, patience) for surface in others)]
        self._surfaces = dict(zip(self._followers, surfaces, strict=True))
        self._change: int | None = None
        self._one_at_a_time = asyncio.Lock()

    async def load(self) -> None:
        """Follow the log from its present end."""
        self._change = await self._store.read(lambda tx: tx.messages.last_change())

    async def run(self) -> None:
        """Follow the log until cancelled."""
        with self._store.changes("messages") as has_changed:
            while True:
                has_changed.clear()
                await self.catch_up()
                await has_changed.wait()

    async def catch_up(self) -> None:
        """Return when the surfaces were given every change that is in the log now."""
        async with self._one_at_a_time:
            try:
                await self._show_changes()
            except StorageError:
                _logger.exception("The log could not be read; the next change is tried again")

    async def _show_changes(self) -> None:
        while self._change is not None and (changes := await self._changes(self._change)):
            for each in changes:
                await self._post(each.message, each.change)
                self._change = each.change

    async def flash(self, message: ChatMessage) -> None:
        """Show a message that is not in the log."""
        await self._post(message, 0)

    def present(self, start: TurnStart) -> Presentation:
        return Presentation(start, self._lanes, self.catch_up, self._messages_of)

    async def changed(self, status: Status) -> None:
        await asyncio.gather(
            *(lane.show(lambda surface: surface.changed(status)) for lane in self._lanes)
        )

    async def _messages_of(self, turn: TurnId) -> tuple[MessageId, ...]:
        """The messages that the turn has committed; they are shown when this returns."""
        await self.catch_up()
        try:
            found = await self._store.read(lambda tx: tx.messages.of_turn(turn))
        except StorageError:
            return ()
        return tuple(each.message.id for each in found)

    async def _changes(self, change: int) -> list[LoggedMessage]:
        return await self._store.read(lambda tx: tx.messages.since_change(change, _AT_ONCE))

    async def _post(self, message: ChatMessage, change: int) -> None:
        async def post(lane: _Lane, surface: ChatSurface) -> None:
            await lane.show(lambda _: surface.post(message, change))

        await asyncio.gather(*(post(lane, one) for lane, one in self._surfaces.items()))


class _Lane:
    """The calls to one surface. While a call is overdue, further calls are not awaited."""

    def __init__(self, surface: Surface, patience: float) -> None:
        self._surface = surface
        self._patience = patience
        self._begun: set[asyncio.Task[None]] = set()
        self._late: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._begun.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[None]) -> None:
        self._begun.discard(task)
        self._late.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _logger.error("%s was left behind", self._surface.name, exc_info=task.exception())

    async def wait_for(self, task: asyncio.Task[None]) -> None:
        if not self._late:
            await asyncio.wait({task}, timeout=self._patience)
            if not task.done():
                _logger.warning("%s does not keep up", self._surface.name)
        if not task.done():
            self._late.add(task)

    async def show(self, show: Callable[[Surface], Awaitable[None]]) -> None:
        await self.wait_for(self.begin(self._shown(show)))

    async def presented(
        self,
        start: TurnStart,
        queue: asyncio.Queue[AgentEvent | None],
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        await catch_up()
        async with aclosing(_events(queue)) as events:
            await self._shown(lambda surface: surface.present(start, events))
        await _drain(queue)

    async def _shown(self, show: Callable[[Surface], Awaitable[None]]) -> None:
        try:
            await show(self._surface)
        except Exception:  # a fault of one surface must affect neither the others nor the bot
            _logger.exception("%s could not show something", self._surface.name)


class Presentation:
    """Shows a running turn on every surface.

    `catch_up` and `messages_of` return when the surfaces show the whole log.
    """

    def __init__(
        self,
        start: TurnStart,
        lanes: Sequence[_Lane],
        catch_up: Callable[[], Awaitable[None]],
        messages_of: Callable[[TurnId], Awaitable[tuple[MessageId, ...]]],
    ) -> None:
        self._turn = start.turn
        self._messages_of = messages_of
        self._turns = [_TurnOnSurface(lane, start, catch_up) for lane in lanes]

    def show(self, event: AgentEvent) -> None:
        for each in self._turns:
            each.queue.put_nowait(event)

    async def flush(self) -> None:
        """Wait until all events so far are shown, at most for the patience of the surfaces."""
        await asyncio.gather(*(each.flush() for each in self._turns))

    async def end(self, last: TurnEnded) -> None:
        """Show the messages that the turn has committed, then the end of the turn."""
        messages: tuple[MessageId, ...] = ()
        try:
            messages = await self._messages_of(self._turn)
        finally:
            self.show(replace(last, messages=messages))
            for each in self._turns:
                each.queue.put_nowait(None)
            await asyncio.gather(*(each.is_over() for each in self._turns))


class _TurnOnSurface:
    def __init__(
        self, lane: _Lane, start: TurnStart, catch_up: Callable[[], Awaitable[None]]
    ) -> None:
        self.queue: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        self._lane = lane
        self._task = lane.begin(lane.presented(start, self.queue, catch_up))

    async def flush(self) -> None:
        await self._lane.wait_for(self._lane.begin(self.queue.join()))

    async def is_over(self) -> None:
        await self._lane.wait_for(self._task)


async def _events(queue: asyncio.Queue[AgentEvent | None]) -> AsyncGenerator[AgentEvent, None]:
    while (event := await queue.get()) is not None:
        try:
            yield event
        finally:
            queue.task_done()
    queue.task_done()
    queue.put_nowait(None)


async def _drain(queue: asyncio.Queue[AgentEvent | None]) -> None:
    """Discard the events that a surface no longer shows, so that `flush` returns."""
    while await queue.get() is not None:
        queue.task_done()
    queue.task_done()
