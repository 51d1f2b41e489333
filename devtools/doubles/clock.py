"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import thread as pool_threads
from datetime import UTC, datetime, timedelta, tzinfo
from functools import wraps
from heapq import heappop, heappush
from itertools import count
from typing import Any
from weakref import WeakSet

from ollim_bot.kernel.base.moments import instant

A_FRACTION = timedelta(microseconds=330_745)
_TURNS_TO_SETTLE = 50
# Looks at threads that work, by turns of the loop at first and then every millisecond. Each takes
# longer on a busy machine, so that the threads have more time there too.
_QUICK_LOOKS, _LOOKS = 20, 300
# Who takes so many seconds of the processor within these looks computes, and is not held by a test.
_COMPUTES, _MOST_LOOKS = 0.1, 100 * _LOOKS


async def run_ready_tasks(at_most: int = _TURNS_TO_SETTLE) -> None:
    """Let the other tasks run until each of them waits, for at most so many turns of the loop.

    Threads and sockets are not waited for.
    """
    # Only a private attribute tells that nothing else is to run; a loop without it takes all turns.
    ready = getattr(asyncio.get_running_loop(), "_ready", None)
    for _ in range(at_most):
        await asyncio.sleep(0)
        if ready is not None and not ready:
            return


_in_pools: set[pool_threads._WorkItem[Any]] = set()
"""What pools have been given and have not finished."""


def _follow_pools() -> None:
    """Note what pools are given, and its end: the frames of other threads cannot be read safely."""
    item = pool_threads._WorkItem
    make, run = item.__init__, item.run

    @wraps(make)
    def noted(self: pool_threads._WorkItem[Any], *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        _in_pools.add(self)

    @wraps(run)
    def finished(self: pool_threads._WorkItem[Any], *arguments: Any, **named: Any) -> None:
        try:
            run(self, *arguments, **named)
        finally:
            _in_pools.discard(self)

    item.__init__, item.run = noted, finished  # type: ignore[method-assign]


_follow_pools()


def _working() -> set[pool_threads._WorkItem[Any]]:
    """A copy, which is one instruction, since threads change the set meanwhile."""
    return {item for item in _in_pools.copy() if not item.future.cancelled()}


class PoolThreads:
    """The work of pools, but for what a test holds: it waits for a third of a second."""

    def __init__(self) -> None:
        self._held: WeakSet[pool_threads._WorkItem[Any]] = WeakSet()
        self._looks = 0
        self._used = 0.0

    def look(self) -> bool:
        """Return whether a thread works, to be asked again after a millisecond if one does."""
        working = _working()
        if not working.difference(self._held):
            self._looks = 0
            return False
        if not self._looks:
            self._used = time.process_time()
        self._looks += 1
        if self._looks % _LOOKS == 0:
            before, self._used = self._used, time.process_time()
            if self._used - before < _COMPUTES or self._looks >= _MOST_LOOKS:
                self._held.update(working)
        return True

    def is_idle(self) -> bool:
        """Return whether no thread works, those that a test holds included."""
        return not _working()


_pool_threads = PoolThreads()


async def settle() -> None:
    """Let all tasks run until each waits for the clock, for something outside or for a held thread.

    A thread is held if it works for about a third of a second without the processor.
    """
    looks = 0
    await run_ready_tasks()
    while _pool_threads.look():
        looks += 1
        await asyncio.sleep(0 if looks < _QUICK_LOOKS else 0.001)
        await run_ready_tasks()


def off_the_second(moment: datetime) -> datetime:
    """The moment, as a real clock would show it: a whole second is moved on by `A_FRACTION`."""
    return moment if moment.microsecond else moment + A_FRACTION


class ManualClock:
    """Doubles `MovableClock`. `advance` lets time pass; `jump` moves the wall clock only.

    It never starts on a whole second.
    """

    def __init__(self, start: datetime, zone: tzinfo = UTC) -> None:
        self._start = instant(off_the_second(start), zone).astimezone(UTC)
        self._zone = zone
        self._passed = timedelta()
        self._jumped = timedelta()
        self._order = count()
        self._sleepers: list[tuple[timedelta, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return (self._start + self._passed + self._jumped).astimezone(self._zone)

    def copied(self) -> ManualClock:
        """A clock of its own that shows the same; no task sleeps by it."""
        copied = ManualClock(self._start, self._zone)
        copied._passed, copied._jumped = self._passed, self._jumped
        return copied

    def set_zone(self, zone: tzinfo) -> None:
        self._zone = zone

    def monotonic(self) -> float:
        return self._passed.total_seconds()

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake = asyncio.get_running_loop().create_future()
        heappush(
            self._sleepers, (self._passed + timedelta(seconds=seconds), next(self._order), wake)
        )
        await wake

    @property
    def sleeping(self) -> int:
        """How many tasks are asleep now."""
        return sum(not wake.done() for _, _, wake in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Let time pass. Sleepers wake one by one, each at its own moment.

        Before it passes and after it has, all that runs is let run, in threads too; for one that
        wakes in between, threads are not waited for.
        """
        if seconds < 0:
            raise ValueError("Time does not go back; `jump` sets the wall clock back.")
        await settle()
        target = self._passed + timedelta(seconds=seconds)
        while self._sleepers and self._sleepers[0][0] <= target:
            self._passed, _, wake = heappop(self._sleepers)
            if not wake.done():
                wake.set_result(None)
                await run_ready_tasks()
        self._passed = target
        await settle()

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or, with a negative number, back. No sleeper wakes."""
        self._jumped += timedelta(seconds=seconds)
