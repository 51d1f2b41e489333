"""Virtual time: when no task is ready to run, the time jumps to the next timer.

There are no threads and no real waiting, so that the same seed gives the same year each time.
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

# Shorter differences are lost to rounding in large numbers of seconds.
_RESOLUTION = 1e-6
_REAL_WAIT = 0.05
_MOST_REAL_WAITS = 200

# The bot takes a timer that fires more than 90 seconds late for a sleep of the machine.
_IDLE_DELAY = 82.0
_ACTIVE_DELAY = 5.0
# Activity leads to no further activity after so many seconds, except at due times.
_ACTIVE_SECONDS = 150.0


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`wake_up_at` maps the time of the next timer to the time at which it fires.

    It may fire late, as on a busy machine. A call for an executor runs at once, in this thread,
    and its result is set in the next iteration of the loop.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self.wake_up_at: Callable[[float], float] = lambda until: until
        super().__init__(_VirtualTimeSelector(self._advance))
        self._clock_resolution = _RESOLUTION

    def time(self) -> float:
        return self._now

    def run_in_executor(
        self, _: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self.create_future()
        try:
            self.call_soon(_set_result, done, func(*args))
        except Exception as raised:  # noqa: BLE001 - the caller gets it
            done.set_exception(raised)
        return done

    def _advance(self, seconds: float) -> None:
        until = self._now + seconds
        self._now = max(until, self.wake_up_at(until))


def _set_result(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


class _VirtualTimeSelector(selectors.DefaultSelector):
    """Advances the time instead of waiting for it.

    Without a timer it waits in real time for a file descriptor, but not forever.
    """

    def __init__(self, advance: Callable[[float], None]) -> None:
        super().__init__()
        self._advance = advance
        self._real_waits = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, Any]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            self._real_waits = 0
            return ready
        if timeout is not None:
            self._advance(timeout)
            return ready
        self._real_waits += 1
        if self._real_waits > _MOST_REAL_WAITS:
            raise RuntimeError("All tasks wait, and there is no timer.")
        return super().select(_REAL_WAIT)


class VirtualWallClock:
    """`MovableClock`. `jump` changes the wall time only: no timer fires earlier or later."""

    def __init__(self, loop: VirtualTimeLoop, start: datetime, zone: tzinfo) -> None:
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


class VirtualTimePacer:
    """Lets timers fire late, so that a year takes fewer steps of the loop.

    The delay is short while something goes on, and never passes the next due time or `stop_at`.
    `busy_turns` is the number of turns in which the model is working.
    """

    def __init__(self, loop: VirtualTimeLoop, clock: VirtualWallClock) -> None:
        self._loop = loop
        self._clock = clock
        self._due_times: list[float] = []
        self._last_activity = 0.0
        self.stop_at = 0.0
        self.busy_turns = 0
        loop.wake_up_at = self.wake_up_at

    def add_due_times(self, due_times: Iterable[datetime]) -> None:
        self._due_times += (each.timestamp() for each in due_times)
        self._due_times.sort()

    def note_activity(self) -> None:
        """Keep the delays short for a while: the bot may react to what happened now."""
        self._last_activity = self._loop.time()

    @property
    def seconds_since_activity(self) -> float:
        """The seconds since the last activity or the last due time; 0 while a turn is busy."""
        wall = self._clock.seconds
        number = bisect_right(self._due_times, wall)
        last = self._due_times[number - 1] if number else 0.0
        if self.busy_turns:
            return 0.0
        return min(self._loop.time() - self._last_activity, wall - last)

    def wake_up_at(self, until: float) -> float:
        now, wall = self._loop.time(), self._clock.seconds
        number = bisect_right(self._due_times, wall + _RESOLUTION)
        is_active = self.seconds_since_activity < _ACTIVE_SECONDS
        late = now + (_ACTIVE_DELAY if is_active else _IDLE_DELAY)
        if number < len(self._due_times):
            late = min(late, now + self._due_times[number] - wall)
        return max(until, min(late, max(self.stop_at, now)))
