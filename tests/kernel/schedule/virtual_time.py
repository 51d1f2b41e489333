"""Virtual time: a clock that moves to the next wake-up at once, so that a year takes seconds.

There are no threads and no real waits: a sleeping task wakes as soon as no other task can run.
So each run of the same year is the same.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextvars import Context
from datetime import UTC, datetime, timedelta
from heapq import heappop
from typing import TypeVar, TypeVarTuple, Unpack

from devtools.doubles.clock import ManualClock

# How late a wait may end on a busy machine. The schedule takes a longer delay for a sleep of the
# machine.
LONGEST_DELAY = timedelta(seconds=85)
_SHORTEST_DELAYED_WAIT = timedelta(seconds=5)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class IdleAwareLoop(asyncio.SelectorEventLoop):
    """Knows when no task can run. It runs the work for a thread at once, in the loop's thread."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
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
        except Exception as raised:  # noqa: BLE001 - the caller gets it
            done.set_exception(raised)
        return done

    async def until_idle(self) -> None:
        """Return when one turn of the loop has scheduled no further callback."""
        before = -1
        while self.calls > before + 1:
            before = self.calls
            await asyncio.sleep(0)


class VirtualClock(ManualClock):
    """A `ManualClock` that can move from one wake-up to the next."""

    def wake_next(self, at_most: timedelta) -> bool:
        """Move to the next wake-up and wake that task; False if there is none within `at_most`."""
        target = self._passed + at_most
        while self._sleepers and self._sleepers[0][0] <= target:
            at, _, wake = heappop(self._sleepers)
            if not wake.done():
                self._passed = at
                wake.set_result(None)
                return True
        self._passed = target
        return False


class FakeWatcher:
    """Doubles `Watcher`: a call of `wait` advances the clock, as far as `run_until` allows.

    A wait of at least five seconds lasts longer, as on a busy machine, if nothing is due in
    `moments`.
    """

    def __init__(
        self, loop: IdleAwareLoop, clock: VirtualClock, moments: Sequence[datetime]
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._moments = moments
        self._until = clock.now()
        self._may_go_on = asyncio.Event()
        self._has_stopped = asyncio.Event()
        self._calls = -1
        self.woken = asyncio.Event()

    async def run_until(self, until: datetime) -> None:
        """Let the clock run until it shows `until` and no task can run."""
        self._until = until
        self._has_stopped.clear()
        self._may_go_on.set()
        await self._has_stopped.wait()

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def wait(self, at_most: float) -> None:
        await self._until_idle()
        now = self._clock.now().astimezone(UTC)
        if now >= self._until:
            self._may_go_on.clear()
            self._has_stopped.set()
            await self._may_go_on.wait()
            return
        left = self._pause(now, timedelta(seconds=at_most))
        while left > timedelta():
            self._clock.wake_next(left)
            await self._until_idle()
            left -= self._clock.now().astimezone(UTC) - now
            now = self._clock.now().astimezone(UTC)

    def _pause(self, now: datetime, at_most: timedelta) -> timedelta:
        if at_most >= _SHORTEST_DELAYED_WAIT:
            later = bisect_right(self._moments, now)
            due = self._moments[later] if later < len(self._moments) else now + LONGEST_DELAY
            at_most = max(at_most, min(LONGEST_DELAY, due - now))
        return min(at_most, self._until - now)

    async def _until_idle(self) -> None:
        if self._loop.calls != self._calls:
            await self._loop.until_idle()
            self._calls = self._loop.calls
