"""The one place where work waits for a disk that refuses."""

from __future__ import annotations

import asyncio
import logging
from typing import TypeVar

from ollim_bot.conversation.notices import Notices
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.store.database import Step
from ollim_bot.store.store import Store

_PAUSE = 5.0

R = TypeVar("R")

_logger = logging.getLogger(__name__)


class DiskGate:
    """Work that a full or failing disk stops goes on by itself when there is room again."""

    def __init__(self, store: Store, notices: Notices, clock: Clock) -> None:
        self._store = store
        self._notices = notices
        self._clock = clock

    async def commit(self, step: Step[R], hurry: asyncio.Event | None = None) -> R:
        """Commit the step, as soon as the disk takes it.

        Once `hurry` is set it waits no more, and raises `StorageError`.
        """
        while True:
            is_last = hurry is not None and hurry.is_set()
            try:
                return await self._store.transact(step)
            except StorageError as refused:
                if is_last:
                    raise
                await self.wait(refused, hurry)

    async def wait(self, refused: StorageError, hurry: asyncio.Event | None = None) -> None:
        """Say so once a day; return when there is room again, or `hurry` is set."""
        _logger.warning("Work stands still: %s", refused)
        await self._notices.tell(str(refused), key=f"{refused} {self._clock.now():%Y-%m-%d}")
        while not await self._has_paused(hurry) and not self._store.is_writable:
            pass

    async def _has_paused(self, hurry: asyncio.Event | None) -> bool:
        """Wait for a moment; True if `hurry` was set before it was over."""
        if hurry is None:
            await self._clock.sleep(_PAUSE)
            return False
        pause = asyncio.ensure_future(self._clock.sleep(_PAUSE))
        hurried = asyncio.ensure_future(hurry.wait())
        try:
            await asyncio.wait({pause, hurried}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            hurried.cancel()
        return hurry.is_set()
