"""A bot in virtual time at another date, which shares a database on a real server."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tests.e2e.in_process_bot import InProcessBot
from tests.virtual_loop import LoopClock

NEW_YORK = ZoneInfo("America/New_York")
# A Saturday; the clocks of New York go back in the night to the second day.
FIRST = datetime(2026, 10, 31, 20, 48, 41, 300_123, tzinfo=NEW_YORK)


class EveningClock(LoopClock):
    """The clock of the loop, which began at another moment."""

    def __init__(self, began: datetime) -> None:
        super().__init__(began.tzinfo or UTC)
        self._began = began.astimezone(UTC) - timedelta(seconds=self.monotonic())

    def now(self) -> datetime:
        return (self._began + timedelta(seconds=self.monotonic())).astimezone(self._zone)


class EveningBot(InProcessBot):
    async def stop(self, _: int = signal.SIGTERM) -> int:
        """Let go of the lease, which takes its time on the server: here no time is too long."""
        await self._disconnect()
        if self._app is not None and self._running is not None:
            self._app.stop()
            await self._running
        return 0
