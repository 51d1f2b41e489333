"""Shows the log, running turns and the status on every surface."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import replace

from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.events import AgentEvent, TurnEnded
from ollim_bot.kernel.values.ports import ChatSurface, Surface, TurnStart

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
        self.store = store
        self._followers = [(_Lane(surface, patience), surface) for surface in surfaces]
        others_lanes = [(_Lane(surface, patience), surface) for surface in others]
        self.lanes: Sequence[tuple[_Lane, Surface]] = [*self._followers, *others_lanes]
        self._change: int | None = None
        self._one_at_a_time = asyncio.Lock()

    async def load(self) -> None:
        """Follow the log from its present end."""
        self._change = await self.store.read(lambda tx: tx.messages.last_change())

    async def run(self) -> None:
        """Follow the log until cancelled."""
        with self.store.changes("messages") as has_changed:
            while True:
                has_changed.clear()
                await self.catch_up()
                await has_changed.wait()

    async def catch_up(self) -> None:
        """Return when the surfaces were given every change that is in the log now."""
        async with self._one_at_a_time:
            # After a refusal, the next change is tried again.
            await unless_refused("The log could not be read", self._show_changes())

    async def _show_changes(self) -> None:
        while self._change is not None and (
            changes := await self.store.read(
                lambda tx, since=self._change: tx.messages.since_change(since, 100)  # type: ignore[misc]
            )
        ):
            for each in changes:
                await self.show(each.message, each.change)
                self._change = each.change

    async def show(self, message: ChatMessage, change: int = 0) -> None:
        """Show a message; `change` is 0 for one that is not in the log."""
        await asyncio.gather(
            *(
                lane.wait_for(lane.begin(surface.post(message, change)))
                for lane, surface in self._followers
            )
        )


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
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[None]) -> None:
        self._begun.discard(task)
        self._late.discard(task)
        # A fault of one surface must affect neither the others nor the bot.
        if not task.cancelled() and (fault := task.exception()) is not None:
            _logger.error("%s could not show something", self._surface.name, exc_info=fault)

    async def wait_for(self, task: asyncio.Task[None]) -> None:
        if not self._late:
            await asyncio.wait({task}, timeout=self._patience)
            if not task.done():
                _logger.warning("%s does not keep up", self._surface.name)
        if not task.done():
            self._late.add(task)


class Presentation:
    """Shows a running turn on every surface, each at its own pace."""

    def __init__(self, start: TurnStart, fanout: SurfaceFanout) -> None:
        self._turn = start.turn
        self._fanout = fanout
        self._queues: list[asyncio.Queue[AgentEvent | None]] = [
            asyncio.Queue() for _ in fanout.lanes
        ]
        self._tasks = [
            lane.begin(self._present(surface, start, queue))
            for (lane, surface), queue in zip(fanout.lanes, self._queues, strict=True)
        ]

    async def _present(
        self, surface: Surface, start: TurnStart, queue: asyncio.Queue[AgentEvent | None]
    ) -> None:
        await self._fanout.catch_up()
        try:
            async with aclosing(_events(queue)) as events:
                await surface.present(start, events)
        except Exception:  # the events of a surface that fails must not be waited for
            _logger.exception("%s could not show a turn", surface.name)
        # Discard the events that the surface no longer shows, so that `flush` returns.
        while await queue.get() is not None:
            queue.task_done()
        queue.task_done()

    def show(self, event: AgentEvent) -> None:
        for queue in self._queues:
            queue.put_nowait(event)

    async def flush(self) -> None:
        """Wait until all events so far are shown, at most for the patience of the surfaces."""
        lanes = zip(self._fanout.lanes, self._queues, strict=True)
        await asyncio.gather(
            *(lane.wait_for(lane.begin(queue.join())) for (lane, _), queue in lanes)
        )

    async def end(self, last: TurnEnded) -> None:
        """Show the messages that the turn has committed, then the end of the turn."""
        try:
            await self._fanout.catch_up()
            reading = self._fanout.store.read(lambda tx: tx.messages.of_turn(self._turn))
            committed = await unless_refused("The messages of a turn could not be read", reading)
            last = replace(last, messages=tuple(each.message.id for each in committed or ()))
        finally:
            for queue in self._queues:
                queue.put_nowait(last)
                queue.put_nowait(None)
            lanes = zip(self._fanout.lanes, self._tasks, strict=True)
            await asyncio.gather(*(lane.wait_for(task) for (lane, _), task in lanes))


async def _events(queue: asyncio.Queue[AgentEvent | None]) -> AsyncGenerator[AgentEvent, None]:
    while (event := await queue.get()) is not None:
        try:
            yield event
        finally:
            queue.task_done()
    queue.task_done()
    queue.put_nowait(None)
