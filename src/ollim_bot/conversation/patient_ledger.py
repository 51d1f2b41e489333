"""Rows of the ledger that have to come: on a full disk, as soon as there is room."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from ollim_bot.conversation.notices import Notices
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.stores import Stores

_BETWEEN_TRIES = 5.0

_logger = logging.getLogger(__name__)


class PatientLedger:
    def __init__(self, stores: Stores, notices: Notices, clock: Clock) -> None:
        self._stores = stores
        self._notices = notices
        self._clock = clock

    async def append(self, row: LedgerRow, hurry: asyncio.Event | None = None) -> bool:
        """When it returns, the row is on disk; it bears the time at which it could be written.

        Once `hurry` is set, nothing is waited for; False if there was no room then.
        """
        while True:
            is_last = hurry is not None and hurry.is_set()
            try:
                await asyncio.to_thread(self._stores.ledger.append, row)
            except StorageError as refused:
                if is_last:
                    _logger.exception("A row of the ledger could not be written")
                    return False
                await self.wait_for_room(refused, hurry)
                row = replace(row, ts=self._clock.now())
            else:
                return True

    async def wait_for_room(
        self, refused: StorageError, hurry: asyncio.Event | None = None
    ) -> None:
        """A while, or until `hurry` is set; that the ledger stands still is told once a day."""
        _logger.warning("The ledger has to wait: %s", refused)
        await self._notices.tell(str(refused), key=f"ledger {self._clock.now():%Y-%m-%d}")
        waits = {asyncio.ensure_future(self._clock.sleep(_BETWEEN_TRIES))}
        if hurry is not None:
            waits.add(asyncio.ensure_future(_set(hurry)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


async def _set(event: asyncio.Event) -> None:
    await event.wait()
