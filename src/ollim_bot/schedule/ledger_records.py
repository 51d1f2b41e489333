"""What the scheduler records about itself: armed jobs, the heartbeat, and checkpoints."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ollim_bot.clock import zone_of
from ollim_bot.domain.definitions import Armed, Definition
from ollim_bot.domain.job_kinds import JobKey
from ollim_bot.domain.jobs import Job
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.run_history import STARTED
from ollim_bot.domain.schedule import key_of
from ollim_bot.domain.travel import ZoneMove
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.schedule.job_index import Changes
from ollim_bot.schedule.owner_zone import OwnerZone
from ollim_bot.store.heartbeat import HeartbeatFile
from ollim_bot.store.store import Store

# How long only changes are written, before all jobs are compared with the ledger again.
_TRUSTED = timedelta(days=1)
_BETWEEN_BEATS = timedelta(seconds=30)
_BETWEEN_CHECKPOINTS = timedelta(hours=1)

_logger = logging.getLogger(__name__)


class ArmedJobs:
    """Keeps the ledger's list of armed jobs current.

    `since` is the moment until which all due occurrences are claimed.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._armed: Armed | None = None
        self._compared_at: datetime | None = None

    async def marks(self) -> Mapping[JobKey, str]:
        """The mark of each job that the ledger has armed."""
        if self._armed is None:
            self._armed = await self._store.read(lambda tx: tx.ledger.armed())
        return self._armed.marks

    def forget(self) -> None:
        """Read the ledger again at the next write: another process may have written to it."""
        self._armed = None

    async def write_all(self, jobs: Iterable[Job], now: datetime, since: datetime) -> None:
        """Write that exactly `jobs` are armed; after a return to a copy, since that was made."""
        window = await self._store.read(lambda tx: tx.passed_over.get())
        since = min(since, window.since or since)
        armed = self._armed
        if armed is None:
            armed = await self._store.read(lambda tx: tx.ledger.armed())
        await self._append(*await asyncio.to_thread(self._rows, armed, armed, [*jobs], now, since))
        self._compared_at = now

    async def write(
        self, changes: Changes, jobs: Iterable[Job], now: datetime, since: datetime
    ) -> None:
        """As `write_all`, given that only `changes` are new since the last write."""
        armed, compared = self._armed, self._compared_at
        if armed is None or compared is None or not compared <= now < compared + _TRUSTED:
            await self.write_all(jobs, now, since)
            return
        booked = (*changes.added, *changes.changed, *changes.removed)
        keys = (key_of(one.job) for one in booked)
        known = {key: armed.jobs[key] for key in keys if key in armed.jobs}
        new = [one.job for one in (*changes.added, *changes.changed)]
        concerned = Armed(known, now)
        await self._append(*await asyncio.to_thread(self._rows, armed, concerned, new, now, since))

    async def move(self, jobs: Sequence[Job], move: ZoneMove, now: datetime) -> None:
        """Write the jobs with their new zone; those that have come keep the old one."""
        armed = await self._store.read(lambda tx: tx.ledger.armed())
        rows, after = await asyncio.to_thread(_moved_rows, armed, jobs, move, now)
        await self._append(rows, after)

    async def _append(self, rows: Sequence[LedgerRow], after: Armed) -> None:
        # After a failed write, the content of the ledger is unknown.
        self._armed = None
        if rows:
            await self._store.transact(lambda tx: tx.ledger.append(*rows))
        self._armed = after

    def _rows(
        self, armed: Armed, concerned: Armed, jobs: Iterable[Job], now: datetime, since: datetime
    ) -> tuple[Sequence[LedgerRow], Armed]:
        zone = zone_of(self._clock)
        wanted = [armed.current(Definition.of(job, zone), now) for job in jobs]
        rows = concerned.rows_for(wanted, now, since)
        return rows, armed.with_changes(concerned.jobs, wanted, rows)


def _moved_rows(
    armed: Armed, jobs: Iterable[Job], move: ZoneMove, now: datetime
) -> tuple[Sequence[LedgerRow], Armed]:
    """A job that the new clock may have jumped over counts since before the move."""
    groups: dict[datetime, list[Definition]] = {}
    for job in jobs:
        if key_of(job) not in move.came:
            groups.setdefault(move.jumped_since(job), []).append(Definition.of(job, move.after))
        elif key_of(job) not in armed.jobs:
            # It came by the old clock, by which a restart must know it: it was never armed before.
            groups.setdefault(move.at, []).append(Definition.of(job, move.before))
    rows: list[LedgerRow] = []
    for since, wanted in groups.items():
        known = {new.key: armed.jobs[new.key] for new in wanted if new.key in armed.jobs}
        rows += Armed(known, now).rows_for(wanted, now, since)
    moved = [new for wanted in groups.values() for new in wanted]
    return rows, armed.with_changes((), moved, rows)


class Heartbeat:
    """Records how far the schedule has come. A failed write does not stop the schedule."""

    def __init__(self, store: Store, file: HeartbeatFile) -> None:
        self._store = store
        self._file = file
        self._beat_at: datetime | None = None
        self._checkpoint_at: datetime | None = None

    async def last(self) -> datetime | None:
        """The last heartbeat of the process before this one; None if there was none."""
        return await asyncio.to_thread(self._file.read)

    async def start(self, now: datetime) -> None:
        row = LedgerRow(now, STARTED)
        await kept("The start", self._store.transact(lambda tx: tx.ledger.append(row)))

    async def beat(self, now: datetime) -> None:
        """Record that everything due until `now` is claimed. Cheap to call often."""
        last = self._beat_at
        if last is not None and last <= now < last + _BETWEEN_BEATS:
            return
        self._beat_at = now
        await kept("The heartbeat", asyncio.to_thread(self._file.write, now))
        if self._checkpoint_at is None or now - self._checkpoint_at > _BETWEEN_CHECKPOINTS:
            await self.checkpoint(now, now)

    async def checkpoint(self, now: datetime, watched_until: datetime) -> None:
        """Record the unfinished occurrences, and until when everything due is claimed."""
        self._checkpoint_at = now
        write = self._store.transact(lambda tx: tx.ledger.checkpoint(now, watched_until))
        await kept("A checkpoint", write)


@dataclass(frozen=True, slots=True)
class ScheduleRecords:
    armed: ArmedJobs
    heartbeat: Heartbeat
    zone: OwnerZone


async def kept(what: str, write: Awaitable[None]) -> None:
    """Await `write`, and log a failure."""
    try:
        await write
    except StorageError:
        _logger.warning("%s could not be written down", what, exc_info=True)
