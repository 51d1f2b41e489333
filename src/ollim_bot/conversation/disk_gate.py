"""The one place where work waits for a disk that refuses writes."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TypeVar

from ollim_bot.clock import wait_until_set
from ollim_bot.conversation.notices import Notices
from ollim_bot.domain.notices import Notice
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.store.database import Step
from ollim_bot.store.steps import leave_notice
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

_PAUSE = 5.0

R = TypeVar("R")

_logger = logging.getLogger(__name__)


class DiskGate:
    """Resumes work that a full or failing disk stopped, as soon as the disk takes writes again."""

    def __init__(self, store: Store, notices: Notices, clock: Clock) -> None:
        self._store = store
        self._notices = notices
        self._clock = clock

    async def commit(
        self, step: Step[R], hurry: asyncio.Event | None = None, notice: Notice | None = None
    ) -> R:
        """Commit the step together with the notice, as soon as the disk takes them.

        While it waits, the notice is shown as a problem. Once `hurry` is set, it stops waiting and
        raises `StorageError`.
        """
        while True:
            is_last = hurry is not None and hurry.is_set()
            try:
                both = step if notice is None else partial(_with_notice, step, notice)
                return await self._store.transact(both)
            except StorageError as refused:
                if is_last:
                    raise
                if notice is not None:
                    await self._notices.tell(
                        notice.text, key=notice.key, for_reminder=notice.for_reminder
                    )
                await self.wait(refused, hurry)

    async def wait(self, refused: StorageError, hurry: asyncio.Event | None = None) -> None:
        """Wait for a moment, or until `hurry` is set. Once a day, tell the owner why work waits."""
        _logger.warning("Work stands still: %s", refused)
        key = f"{refused} {self._clock.now():%Y-%m-%d}"
        await self._notices.tell(str(refused), key=key, for_reminder=True)
        await wait_until_set(hurry or asyncio.Event(), self._clock, _PAUSE)


def _with_notice(step: Step[R], notice: Notice, tx: Transaction) -> R:
    leave_notice(tx, notice, tx.now)
    return step(tx)
