"""What the scheduler writes down about itself: armed jobs, the heartbeat, and checkpoints."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, tzinfo

from ollim_bot.domain.definitions import Armed, Definition
from ollim_bot.domain.facts import Facts
from ollim_bot.domain.jobs import Job
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.run_history import STARTED
from ollim_bot.errors import StorageError
from ollim_bot.schedule.job_index import Changes
from ollim_bot.stores import Stores

# How long only what changes is written, before all jobs are compared with the ledger again.
_TRUSTED = timedelta(days=1)
_BETWEEN_BEATS = timedelta(seconds=30)
_BETWEEN_CHECKPOINTS = timedelta(hours=1)

_logger = logging.getLogger(__name__)


class ArmedJobs:
    """Keeps the ledger's list of armed jobs current. Its methods block: call them in a thread.

    `since` is the moment up to which all that was due has been claimed.
    """

    def __init__(self, stores: Stores, zone: tzinfo) -> None:
        self._stores = stores
        self._zone = zone
        self._armed: Armed | None = None
        self._compared_at: datetime | None = None

    def write_all(self, jobs: Iterable[Job], now: datetime, since: datetime) -> None:
        """Write that exactly `jobs` are armed."""
        armed = self._armed or self._stores.armed_jobs()
        self._write(armed, armed, jobs, now, since)
        self._compared_at = now

    def write(self, changes: Changes, jobs: Iterable[Job], now: datetime, since: datetime) -> None:
        """The same, where only `changes` are new since the last write."""
        armed, compared = self._armed, self._compared_at
        if armed is None or compared is None or not compared <= now < compared + _TRUSTED:
            self.write_all(jobs, now, since)
            return
        booked = (*changes.added, *changes.changed, *changes.removed)
        known = {key: armed.jobs[key] for one in booked if (key := one.key) in armed.jobs}
        new = [one.job for one in (*changes.added, *changes.changed)]
        self._write(armed, Armed(known, now), new, now, since)

    def _write(
        self, armed: Armed, concerned: Armed, jobs: Iterable[Job], now: datetime, since: datetime
    ) -> None:
        definitions = [Definition.of(job, self._zone) for job in jobs]
        rows = concerned.rows_for(definitions, now, since)
        # A failed write leaves unknown what the ledger says.
        self._armed = None
        if rows:
            self._stores.ledger.append(*rows)
        self._armed = armed.followed_by(rows)


class Heartbeat:
    """Records how far the schedule has come. A failed write does not stop the schedule."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._beat_at: datetime | None = None
        self._checkpoint_at: datetime | None = None

    async def last(self) -> datetime | None:
        """The heartbeat of the process before; None if there was none."""
        return Facts(await asyncio.to_thread(self._stores.memory.read)).heartbeat

    async def start(self, now: datetime) -> None:
        await kept("The start", lambda: self._stores.ledger.append(LedgerRow(now, STARTED)))

    async def beat(self, now: datetime) -> None:
        """Record that all that was due until `now` is claimed. Cheap to call often."""
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
        """Write a row that bounds how far the next start reads back."""
        self._checkpoint_at = now
        await kept("A checkpoint", lambda: self._stores.keep_checkpoint(now, watched_until))


async def kept(what: str, write: Callable[[], None]) -> None:
    """Write in a thread, and log a failure."""
    try:
        await asyncio.to_thread(write)
    except StorageError:
        _logger.warning("%s could not be written down", what, exc_info=True)
