"""Runs tasks beside the event handlers, with retries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from ollim_bot.kernel.base.clock import Backoff, Clock
from ollim_bot.kernel.base.errors import DeliveryFailed, DeliveryUncertain, Unreachable

T = TypeVar("T")


FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
_logger = logging.getLogger(__name__)


class RecentValues(dict[str, T]):
    """A bounded map; beyond `limit`, the entry that was put longest ago is dropped."""

    def __init__(self, limit: int = 300) -> None:
        super().__init__()
        self._limit = limit

    def put(self, name: str, value: T) -> None:
        self.pop(name, None)
        self[name] = value
        if len(self) > self._limit:
            del self[next(iter(self))]


async def finishes_within(task: asyncio.Task[Any], within: float, clock: Clock) -> bool:
    """Wait at most `within` seconds; return whether the task is done. The task keeps running."""
    if task.done():
        return True
    alarm = asyncio.ensure_future(clock.sleep(within))
    try:
        await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        alarm.cancel()
    return task.done()


class BackgroundTasks:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._begun.add(task)
        task.add_done_callback(self._over)
        if self._is_closed:
            task.cancel()
        return task

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work in the background."""
        _ = self.begin(work)

    async def keep_trying(self, call: Callable[[], Awaitable[None]]) -> bool:
        """Try until the call succeeds; return False if it was refused."""
        async for _ in Backoff(self._clock, FIRST_PAUSE, LONGEST_PAUSE):
            try:
                await call()
            except DeliveryFailed:
                return False
            except (Unreachable, DeliveryUncertain):
                continue
            return True
        return False

    def open(self) -> None:
        self._is_closed = False

    async def close(self) -> None:
        """Cancel all tasks. Until `open`, new tasks are cancelled at once."""
        self._is_closed = True
        while self._begun:
            for task in self._begun:
                task.cancel()
            await asyncio.gather(*self._begun, return_exceptions=True)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._begun.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _logger.error("Something could not be shown on Discord", exc_info=task.exception())
