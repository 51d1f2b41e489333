"""What the scheduler records about itself: armed jobs, the heartbeat, and the owner's zone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo

from ollim_bot.kernel.base.clock import Clock, MovableClock, zone_of
from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.base.moments import zone_named
from ollim_bot.kernel.schedule.job_index import Changes
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.definitions import Armed, Definition
from ollim_bot.kernel.values.jobs import Job, Reminder, Routine
from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot.kernel.values.run_history import STARTED
from ollim_bot.kernel.values.schedule import ScheduledJob, Skips, key_of, occurrence_at
from ollim_bot.kernel.values.travel import PlannedZone, ZoneMove, follows_zone

# How long only changes are written, before all jobs are compared with the ledger again.
_TRUSTED = timedelta(days=1)
_BETWEEN_BEATS = timedelta(seconds=30)
_BETWEEN_CHECKPOINTS = timedelta(hours=1)


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
        written = self._store.transact(lambda tx: tx.ledger.append(row))
        await unless_refused("The start could not be written down", written)

    async def beat(self, now: datetime) -> None:
        """Record that everything due until `now` is claimed. Cheap to call often."""
        last = self._beat_at
        if last is not None and last <= now < last + _BETWEEN_BEATS:
            return
        self._beat_at = now
        written = asyncio.to_thread(self._file.write, now)
        await unless_refused("The heartbeat could not be written down", written)
        if self._checkpoint_at is None or now - self._checkpoint_at > _BETWEEN_CHECKPOINTS:
            await self.checkpoint(now, now)

    async def checkpoint(self, now: datetime, watched_until: datetime) -> None:
        """Record the unfinished occurrences, and until when everything due is claimed."""
        self._checkpoint_at = now
        write = self._store.transact(lambda tx: tx.ledger.checkpoint(now, watched_until))
        await unless_refused("A checkpoint could not be written down", write)


@dataclass(frozen=True, slots=True)
class ScheduleRecords:
    armed: ArmedJobs
    heartbeat: Heartbeat
    zone: OwnerZone


class OwnerZone:
    """Moves the clock to the zone of the configuration, and remembers where the schedule is.

    `default` is the zone while the configuration names none.
    """

    def __init__(self, store: Store, clock: MovableClock, default: tzinfo) -> None:
        self._store = store
        self._clock = clock
        self._default = default
        self._config_changed = asyncio.Event()
        self._config_changed.set()
        self._watches = ExitStack()

    async def set_clock(self) -> None:
        """Let the clock show the chosen zone."""
        self._clock.set_zone(await self._chosen())

    def watch(self, woken: asyncio.Event) -> None:
        """Set `woken` when the configuration has changed."""
        for event in (self._config_changed, woken):
            self._watches.enter_context(self._store.changes("config", event=event))

    def close(self) -> None:
        self._watches.close()

    async def last_move(self, watched_until: datetime, jobs: Sequence[Job]) -> ZoneMove | None:
        """The move that the last process did not make, or did not finish; the clock is moved."""
        planned = await self._store.read(lambda tx: tx.zone.get())
        await self.set_clock()
        before, after = zone_named(planned.name) if planned.name else None, zone_of(self._clock)
        if before is None or str(before) == str(after):
            return None
        return await self._noted(ZoneMove(watched_until, before, after), jobs)

    async def next_move(self, now: datetime, jobs: Sequence[Job]) -> ZoneMove | None:
        """The move that the owner has asked for since; the clock is as it was."""
        if not self._config_changed.is_set():
            return None
        before, after = zone_of(self._clock), await self._chosen()
        if str(before) == str(after):
            return None
        return await self._noted(ZoneMove(now, before, after), jobs)

    async def _noted(self, move: ZoneMove, jobs: Sequence[Job]) -> ZoneMove:
        """The move with the reminders that have come, also since a crash cut off the records."""
        reminders = [job for job in jobs if isinstance(job, Reminder) and follows_zone(job)]

        def came(tx: Transaction) -> frozenset[JobKey]:
            found = [(each, each.due(move.before).astimezone(UTC)) for each in reminders]
            return frozenset(
                key_of(each)
                for each, due in found
                if due <= move.at.astimezone(UTC) or tx.ledger.has(occurrence_at(each, due))
            )

        return replace(move, came=await self._store.read(came))

    def follow(self, move: ZoneMove) -> None:
        self._clock.set_zone(move.after)

    async def note_planned(self) -> None:
        """Remember that the schedule is planned in the zone of the clock."""
        planned = PlannedZone(str(zone_of(self._clock)))
        if await self._store.read(lambda tx: tx.zone.get()) != planned:
            await self._store.transact(lambda tx: tx.zone.put(planned))

    async def _chosen(self) -> tzinfo:
        self._config_changed.clear()
        name = await self._store.read(lambda tx: tx.config.get().timezone)
        return (zone_named(name) if name else None) or self._default


class MachineZoneWatch:
    """Offers the owner the machine's zone when the machine has moved to another, once each time.

    It changes nothing. `look` gives the machine's zone as of now; `tell` gets the sentence, and a
    key that is told once.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tell: Callable[[str, str], Awaitable[object]],
        look: Callable[[], tzinfo | None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._tell = tell
        self._look = look

    async def run(self) -> None:
        """Look each minute until cancelled."""
        seen = await asyncio.to_thread(self._look)
        while True:
            await self._clock.sleep(60.0)
            before, seen = seen, await asyncio.to_thread(self._look)
            own = zone_of(self._clock)
            # An owner whose zone was never the machine's, or who chose one, does not follow it.
            if seen is None or str(seen) == str(before) or str(own) != str(before):
                continue
            if await self._store.read(lambda tx: tx.config.get().timezone) is None:
                sentence = (
                    f"Your computer is on {seen} time now; I still use {own}. "
                    f"`/config timezone {seen}` changes that."
                )
                await self._tell(sentence, f"zone {seen} {self._clock.now().isoformat()}")


def move_skips(
    tx: Transaction, jobs: Sequence[ScheduledJob], move: ZoneMove, now: datetime
) -> Skips:
    """Skip by the new clock what the owner wants skipped, and what came by the old clock.

    A move that a crash has cut off is made again, and changes nothing then.
    """
    before, zone = tx.skips.get(), str(move.after)
    if before.zone == zone:
        return before
    moments = {
        name: move.moved(before.moments[name])
        for job in jobs
        if (name := _name(job)) in before.moments and before.moments[name] > move.at
    }
    lived: dict[str, tuple[datetime, ...]] = {}
    for job in jobs:
        if isinstance(job, Routine):
            # The moments of the new clock that came by the old one, or by one before that.
            moments_of_both = move.lived(job, now)
            came = {new for new, old in moments_of_both if tx.ledger.has(occurrence_at(job, old))}
            earlier = before.repetitions.get(_name(job), ())
            if found := tuple(sorted(came.union(move.shown_again(job, earlier)))):
                lived[_name(job)] = found
    return tx.skips.change(lambda skips: skips.moved(zone, moments, lived))


def _name(job: ScheduledJob) -> str:
    kind, job_id = key_of(job)
    return f"{kind}:{job_id}"
