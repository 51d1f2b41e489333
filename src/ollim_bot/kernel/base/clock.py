"""The system clock, in the owner's zone, which can change, and waiting by any clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, tzinfo
from typing import Any, Protocol, TypeVar

R = TypeVar("R")


class Clock(Protocol):
    """The only source of time, so that a test can move it."""

    def now(self) -> datetime:
        """The present instant, in the owner's zone."""

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring lengths of time only."""

    async def sleep(self, seconds: float) -> None: ...


class MovableClock(Clock, Protocol):
    """The clock of the bot, which owns the owner's zone: it can change while the bot runs."""

    def set_zone(self, zone: tzinfo) -> None:
        """Show the time of another zone from now on."""


def zone_of(clock: Clock) -> tzinfo:
    """The owner's zone as of now."""
    return clock.now().tzinfo or UTC


class SystemClock:
    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone

    def now(self) -> datetime:
        return datetime.now(self._zone)

    def set_zone(self, zone: tzinfo) -> None:
        self._zone = zone

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Backoff:
    """Numbers tries from 0, and waits between them: `first` seconds, then twice as long each time.

    After a try that took `recovered` seconds, or the longest pause, the pauses begin anew.
    """

    def __init__(
        self, clock: Clock, first: float, longest: float, recovered: float | None = None
    ) -> None:
        self._clock = clock
        self._first = first
        self._longest = longest
        self._recovered = longest if recovered is None else recovered
        self._pause = first
        self._tries = 0
        self._began = 0.0

    def __aiter__(self) -> Backoff:
        return self

    async def __anext__(self) -> int:
        if self._tries:
            if self._clock.monotonic() - self._began >= self._recovered:
                self._pause = self._first
            await self._clock.sleep(self._pause)
            self._pause = min(2 * self._pause, self._longest)
        self._tries += 1
        self._began = self._clock.monotonic()
        return self._tries - 1


async def within(seconds: float, clock: Clock, work: Coroutine[Any, Any, R]) -> R | None:
    """The result of the work; None if the time was over first. The work has ended then."""
    return await result_before(clock.sleep(seconds), work)


async def result_before(
    limit: Coroutine[Any, Any, object], work: Coroutine[Any, Any, R]
) -> R | None:
    """The result of the work; None if the limit ended first. Both have ended then."""
    task, alarm = asyncio.ensure_future(work), asyncio.ensure_future(limit)
    try:
        await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for each in (task, alarm):
            each.cancel()
        await asyncio.wait({task, alarm})


async def wait_until_set(event: asyncio.Event, clock: Clock, at_most: float | None = None) -> None:
    """Wait for the event, or until `at_most` seconds have passed; None sets no limit."""
    waits: set[asyncio.Future[Any]] = {asyncio.ensure_future(event.wait())}
    if at_most is not None:
        waits.add(asyncio.ensure_future(clock.sleep(at_most)))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
