"""What is written down for those who look back: that the bot runs, and what is claimed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from ollim_bot.domain.facts import Facts
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.run_history import STARTED
from ollim_bot.errors import StorageError
from ollim_bot.stores import Stores

_BETWEEN_BEATS = timedelta(seconds=30)
_BETWEEN_CHECKPOINTS = timedelta(hours=1)

_logger = logging.getLogger(__name__)


class Heartbeat:
    """The schedule goes on, whether it can be written or not."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._beat_at: datetime | None = None
        self._checkpoint_at: datetime | None = None

    async def last(self) -> datetime | None:
        """Of an earlier life."""
        return Facts(await asyncio.to_thread(self._stores.memory.read)).heartbeat

    async def start(self, now: datetime) -> None:
        await kept("The start", lambda: self._stores.ledger.append(LedgerRow(now, STARTED)))

    async def beat(self, now: datetime) -> None:
        """All that was due until `now` is claimed. Cheap to say often."""
        last = self._beat_at
        if last is not None and last <= now < last + _BETWEEN_BEATS:
            return
        self._beat_at = now

        def write() -> None:
            self._stores.memory.transact(lambda raw: (Facts(raw).beaten(now).raw, None))

        await kept("The heartbeat", write)
        if self._checkpoint_at is None or now - self._checkpoint_at > _BETWEEN_CHECKPOINTS:
            await self.checkpoint(now, now)

    async def checkpoint(self, now: datetime, watched_until: datetime) -> None:
        """So that the next start need not read far back."""
        self._checkpoint_at = now
        await kept("A checkpoint", lambda: self._stores.keep_checkpoint(now, watched_until))


async def kept(what: str, write: Callable[[], None]) -> None:
    """In a thread; a disk that refuses is no reason to stand still."""
    try:
        await asyncio.to_thread(write)
    except StorageError:
        _logger.warning("%s could not be written down", what, exc_info=True)
