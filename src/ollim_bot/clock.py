"""The system clock, in the owner's zone."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, tzinfo


class SystemClock:
    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone

    def now(self) -> datetime:
        return datetime.now(self._zone)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
