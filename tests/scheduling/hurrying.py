"""A clock that hurries from one moment to the next, so that a year takes seconds.

There are no threads and no waiting: whoever sleeps is woken as soon as nobody has anything to do.
So the same year is the same each time.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextvars import Context
from datetime import UTC, datetime, timedelta, tzinfo
from heapq import heappop, heappush
from itertools import count
from typing import TypeVar, TypeVarTuple, Unpack

# A machine with much to do may oversleep, and only after more than this counts as one that slept.
OVERSLEPT = timedelta(seconds=85)
_SOME_TIME = timedelta(seconds=5)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class HurryingLoop(asyncio.SelectorEventLoop):
    """Knows when nobody has anything to do. What is for a thread is done when it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        self.calls += 1
        return super().call_soon(callback, *args, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        assert executor is None
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as raised:  # noqa: BLE001 - whoever asked for it gets it
            done.set_exception(raised)
        return done

    async def quiet(self) -> None:
        """Until a whole turn of the loop has led to no other."""
        before = -1
        while self.calls > before + 1:
            before = self.calls
            await asyncio.sleep(0)


class HurryingClock:
    """`MovableClock`. `jump` moves what the wall clock shows, and nobody wakes by it."""

    def __init__(self, start: datetime) -> None:
        self._start = start.astimezone(UTC)
        self._zone = start.tzinfo
        self._passed = timedelta()
        self._jumped = timedelta()
        self._order = count()
        self._sleepers: list[tuple[timedelta, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return (self._start + self._passed + self._jumped).astimezone(self._zone)

    def set_zone(self, zone: tzinfo) -> None:
        self._zone = zone

    def monotonic(self) -> float:
        return self._passed.total_seconds()

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake = asyncio.get_running_loop().create_future()
        at = self._passed + timedelta(seconds=seconds)
        heappush(self._sleepers, (at, next(self._order), wake))
        await wake

    def jump(self, by: timedelta) -> None:
        self._jumped += by

    def go(self, at_most: timedelta) -> bool:
        """Let the time pass up to the next who wakes; False if nobody does."""
        target = self._passed + at_most
        while self._sleepers and self._sleepers[0][0] <= target:
            at, _, wake = heappop(self._sleepers)
            if not wake.done():
                self._passed = at
                wake.set_result(None)
                return True
        self._passed = target
        return False


class Turner:
    """Doubles `Watcher`: who waits for it turns the clock on, until it is to stand.

    A wait of some length lasts longer, as on a busy machine, if nothing is due in `moments`.
    """

    def __init__(
        self, loop: HurryingLoop, clock: HurryingClock, moments: Sequence[datetime]
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._moments = moments
        self._until = clock.now()
        self._goes = asyncio.Event()
        self._stands = asyncio.Event()
        self._calls = -1

    async def turn(self, until: datetime) -> None:
        """Let the clock go until it shows `until`, and all that it brings is done."""
        self._until = until
        self._stands.clear()
        self._goes.set()
        await self._stands.wait()

    def wake(self) -> None:
        """Whoever waits for it wakes soon enough."""

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def wait(self, at_most: float) -> None:
        await self._quiet()
        now = self._clock.now().astimezone(UTC)
        if now >= self._until:
            self._goes.clear()
            self._stands.set()
            await self._goes.wait()
            return
        left = self._pause(now, timedelta(seconds=at_most))
        while left > timedelta():
            self._clock.go(left)
            await self._quiet()
            left -= self._clock.now().astimezone(UTC) - now
            now = self._clock.now().astimezone(UTC)

    def _pause(self, now: datetime, at_most: timedelta) -> timedelta:
        if at_most >= _SOME_TIME:
            later = bisect_right(self._moments, now)
            due = self._moments[later] if later < len(self._moments) else now + OVERSLEPT
            at_most = max(at_most, min(OVERSLEPT, due - now))
        return min(at_most, self._until - now)

    async def _quiet(self) -> None:
        if self._loop.calls != self._calls:
            await self._loop.quiet()
            self._calls = self._loop.calls
