"""The system clock, in the owner's zone, and waiting by any clock."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, tzinfo
from typing import Any

from ollim_bot.ports import Clock


class SystemClock:
    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone

    def now(self) -> datetime:
        return datetime.now(self._zone)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


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
