"""Shows open due items again, until they are answered."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from ollim_bot.domain.due_items import DueItem
from ollim_bot.domain.jobs import Job
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.schedule import Agenda, JobKey
from ollim_bot.domain.travel import ZoneMove
from ollim_bot.errors import StorageError
from ollim_bot.schedule.job_index import Changes, JobIndex, job_of
from ollim_bot.store.item_answers import follow_job, show_again
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

_NEXT_TRY = timedelta(seconds=10)

_logger = logging.getLogger(__name__)


class Nags:
    """Shows each planned time of an open item once, as a new message.

    After downtime only the newest time is shown. It ends when the job is paused or its file is
    removed, and goes on when the job is back.
    """

    def __init__(self, store: Store, index: JobIndex) -> None:
        self._store = store
        self._index = index
        self._agenda: Agenda[str] = Agenda()
        self._items_changed = asyncio.Event()
        self._items_changed.set()
        # At a start any job may have changed.
        self._has_changed_jobs = True
        self._watches = ExitStack()

    @property
    def next_at(self) -> datetime | None:
        return self._agenda.next_at

    @property
    def is_behind(self) -> bool:
        """Never: the planned time of an item is in the ledger, also while it cannot be shown."""
        return False

    async def start(self, since: datetime, now: datetime) -> None:  # noqa: ARG002
        """Notice new and answered items from now on."""
        self._watches.enter_context(self._store.changes("due_items", event=self._items_changed))

    async def close(self) -> None:
        self._watches.close()

    async def serve_due(self, since: datetime, now: datetime) -> None:  # noqa: ARG002
        if self._has_changed_jobs:
            self._has_changed_jobs = False
            try:
                await self._store.transact(self._follow_jobs)
            except StorageError:
                _logger.warning("Due items could not follow their jobs", exc_info=True)
                self._has_changed_jobs = True
        if self._items_changed.is_set():
            await self._read_items()
        for key, _ in self._agenda.due(now):
            try:
                await self._store.transact(partial(self._show, key=key, now=now))
            except StorageError:
                _logger.warning("A due item could not be shown again", exc_info=True)
                self._agenda.put(key, now + _NEXT_TRY)

    def follow_changes(self, changes: Changes, since: datetime) -> None:  # noqa: ARG002
        """An open item keeps the nag that its job had when it came."""
        self._has_changed_jobs |= bool(changes.added or changes.changed or changes.removed)

    async def follow_zone(self, move: ZoneMove, now: datetime) -> None:
        """An open item comes again after its pause, by any clock."""

    async def follow_clock(self, now: datetime) -> None:
        """After the clock was set back, bring no time later than its pause."""

        def step(tx: Transaction) -> None:
            for item in tx.due_items.to_come_again():
                nag, at = item.nag, item.again_at
                if nag is not None and at is not None and at > now + nag.pause:
                    tx.due_items.put(replace(item, again_at=now + nag.pause))

        try:
            await self._store.transact(step)
        except StorageError:
            _logger.warning("Due items could not follow the clock", exc_info=True)

    def _follow_jobs(self, tx: Transaction) -> None:
        for item in tx.due_items.open():
            if item.nag is not None:
                follow_job(tx, item, self._job(item))

    async def _read_items(self) -> None:
        self._items_changed.clear()
        try:
            items = await self._store.read(lambda tx: tx.due_items.to_come_again())
        except StorageError:
            _logger.warning("The due items cannot be read", exc_info=True)
            self._items_changed.set()
            return
        self._agenda = Agenda()
        for item in items:
            if item.again_at is not None:
                self._agenda.put(item.key, item.again_at)

    def _show(self, tx: Transaction, key: str, now: datetime) -> None:
        item = tx.due_items.get(key)
        if item is not None:
            show_again(tx, key, now, self._job(item))

    def _job(self, item: DueItem) -> Job | None:
        occurrence = Occurrence.parse(item.occurrence)
        return job_of(self._index, JobKey(occurrence.kind, occurrence.job_id))
