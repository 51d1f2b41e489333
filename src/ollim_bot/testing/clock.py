"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, tzinfo
from heapq import heappop, heappush
from itertools import count

from ollim_bot.domain.moments import instant

_TURNS_TO_SETTLE = 50


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


class ManualClock:
    """Doubles `MovableClock`. `advance` lets time pass; `jump` moves the wall clock only."""

    def __init__(self, start: datetime, zone: tzinfo = UTC) -> None:
        self._start = instant(start, zone).astimezone(UTC)
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

        A woken task runs until it waits again, for at most a few dozen turns of the event loop;
        threads are not waited for.
        """
        if seconds < 0:
            raise ValueError("Time does not go back; `jump` sets the wall clock back.")
        await run_ready_tasks()
        target = self._passed + timedelta(seconds=seconds)
        while self._sleepers and self._sleepers[0][0] <= target:
            self._passed, _, wake = heappop(self._sleepers)
            if not wake.done():
                wake.set_result(None)
                await run_ready_tasks()
        self._passed = target
        await run_ready_tasks()

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or, with a negative number, back. No sleeper wakes."""
        self._jumped += timedelta(seconds=seconds)
