"""A clock that hurries: as soon as nobody has anything to do, it is the time of the next who has.

There are no threads and no waiting, so that the same year is the same each time.
"""

from __future__ import annotations

import asyncio
import selectors
from bisect import bisect_right
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from datetime import UTC, datetime, tzinfo
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# What is shorter is lost where numbers of seconds have grown large.
_RESOLUTION = 1e-6
_A_MOMENT = 0.05
_MOST_MOMENTS = 200

# Who oversleeps by more than 90 seconds counts as one that slept.
_OVERSLEPT_AT_REST = 82.0
_OVERSLEPT_AT_WORK = 5.0
# What has stirred leads to nothing more after so many seconds, but to what has a moment of its own.
_RINGS_ON = 150.0


class HurryingLoop(asyncio.SelectorEventLoop):
    """`reach` says how late those may wake who wake at a time: on a busy machine, all oversleep.

    What is for a thread is done at once, and comes to whoever asked for it a turn later.
    """

    def __init__(self) -> None:
        self._passed = 0.0
        self.reach: Callable[[float], float] = lambda until: until
        super().__init__(_Selector(self._pass))
        self._clock_resolution = _RESOLUTION

    def time(self) -> float:
        return self._passed

    def run_in_executor(
        self, _: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self.create_future()
        try:
            self.call_soon(_settle, done, func(*args))
        except Exception as raised:  # noqa: BLE001 - whoever asked for it gets it
            done.set_exception(raised)
        return done

    def _pass(self, seconds: float) -> None:
        until = self._passed + seconds
        self._passed = max(until, self.reach(until))


def _settle(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


class _Selector(selectors.DefaultSelector):
    def __init__(self, pass_time: Callable[[float], None]) -> None:
        super().__init__()
        self._pass_time = pass_time
        self._waits = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, Any]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            self._waits = 0
            return ready
        if timeout is not None:
            self._pass_time(timeout)
            return ready
        self._waits += 1
        if self._waits > _MOST_MOMENTS:
            raise RuntimeError("All wait, and for nobody.")
        return super().select(_A_MOMENT)


class WallClock:
    """`MovableClock`. `jump` moves what is on the wall, and nobody wakes by it."""

    def __init__(self, loop: HurryingLoop, start: datetime, zone: tzinfo) -> None:
        self._loop = loop
        self._offset = start.timestamp()
        self.zone = zone

    @property
    def seconds(self) -> float:
        return self._offset + self._loop.time()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, self.zone)

    def set_zone(self, zone: tzinfo) -> None:
        self.zone = zone

    def utc(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def jump(self, seconds: float) -> None:
        self._offset += seconds


class Pace:
    """How far those who sleep may oversleep: not past a moment at which something is due.

    `stop` is where whoever drives the clock wants it to stand next. Those who are `busy` want it to
    go on slowly.
    """

    def __init__(self, loop: HurryingLoop, clock: WallClock) -> None:
        self._loop = loop
        self._clock = clock
        self._moments: list[float] = []
        self._stirred = 0.0
        self.stop = 0.0
        self.busy = 0
        loop.reach = self.reach

    def add(self, moments: Iterable[datetime]) -> None:
        self._moments += (each.timestamp() for each in moments)
        self._moments.sort()

    def stir(self) -> None:
        """Something has happened, to which there may be an answer soon."""
        self._stirred = self._loop.time()

    @property
    def stirred_ago(self) -> float:
        """How many seconds ago anything has happened, or was due."""
        wall = self._clock.seconds
        number = bisect_right(self._moments, wall)
        last = self._moments[number - 1] if number else 0.0
        return 0.0 if self.busy else min(self._loop.time() - self._stirred, wall - last)

    def reach(self, until: float) -> float:
        now, wall = self._loop.time(), self._clock.seconds
        number = bisect_right(self._moments, wall + _RESOLUTION)
        is_at_work = self.stirred_ago < _RINGS_ON
        late = now + (_OVERSLEPT_AT_WORK if is_at_work else _OVERSLEPT_AT_REST)
        if number < len(self._moments):
            late = min(late, now + self._moments[number] - wall)
        return max(until, min(late, max(self.stop, now)))
