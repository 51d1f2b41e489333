"""The moments that the owner wants left out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from ollim_bot.domain.facts import Facts
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.errors import StorageError
from ollim_bot.stores import Stores

_logger = logging.getLogger(__name__)


class Skips:
    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def has(self, occurrence: Occurrence) -> bool:
        return (await asyncio.to_thread(self.read)).is_skipped(occurrence)

    def read(self) -> Facts:
        """Nothing is skipped where that cannot be known: better once too often than not at all."""
        try:
            return Facts(self._stores.memory.read())
        except StorageError:
            _logger.warning("What is to be skipped cannot be read", exc_info=True)
            return Facts({})

    async def forget(self, occurrence: Occurrence) -> None:
        """It has been left out; a later moment that was skipped meanwhile stays so."""

        def step(raw: Mapping[str, object]) -> tuple[Mapping[str, object], None]:
            facts = Facts(raw)
            is_this = facts.is_skipped(occurrence)
            job = f"{occurrence.kind}:{occurrence.job_id}"
            return (facts.without_skip(job) if is_this else facts).raw, None

        try:
            await asyncio.to_thread(self._stores.memory.transact, step)
        except StorageError:  # the moment is over, so it does no harm
            _logger.warning("A skip could not be forgotten", exc_info=True)
