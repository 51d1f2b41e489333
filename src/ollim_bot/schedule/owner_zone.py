"""The owner's time zone: the one that the bot uses, and the one that the owner chose since."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, tzinfo

from ollim_bot.clock import MovableClock, zone_of
from ollim_bot.domain.job_kinds import JobKey
from ollim_bot.domain.jobs import Job, Reminder, Routine
from ollim_bot.domain.moments import zone_named
from ollim_bot.domain.schedule import ScheduledJob, Skips, key_of, occurrence_at
from ollim_bot.domain.travel import PlannedZone, ZoneMove, follows_zone
from ollim_bot.ports import Clock
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction


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
            return frozenset(key_of(each) for each in reminders if _has_come(tx, each, move))

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
            if seen is not None and str(seen) != str(before):
                await self._offer(before, seen)

    async def _offer(self, before: tzinfo | None, present: tzinfo) -> None:
        own = zone_of(self._clock)
        chosen = await self._store.read(lambda tx: tx.config.get().timezone)
        # An owner who chose a zone, or whose zone was never the machine's, does not follow it.
        if chosen is not None or str(own) != str(before):
            return
        sentence = (
            f"Your computer is on {present} time now; I still use {own}. "
            f"`/config timezone {present}` changes that."
        )
        await self._tell(sentence, f"zone {present} {self._clock.now().isoformat()}")


def _has_come(tx: Transaction, reminder: Reminder, move: ZoneMove) -> bool:
    due = reminder.due(move.before).astimezone(UTC)
    return due <= move.at.astimezone(UTC) or tx.ledger.has(occurrence_at(reminder, due))


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
    lived = {
        _name(job): found
        for job in jobs
        if isinstance(job, Routine) and (found := _lived(tx, job, move, now, before))
    }
    return tx.skips.change(lambda skips: skips.moved(zone, moments, lived))


def _lived(
    tx: Transaction, routine: Routine, move: ZoneMove, now: datetime, skips: Skips
) -> tuple[datetime, ...]:
    """The moments of the new clock that came by the old one, or by one before that."""
    found = move.lived(routine, now)
    came = {new for new, old in found if tx.ledger.has(occurrence_at(routine, old))}
    earlier = skips.repetitions.get(_name(routine), ())
    return tuple(sorted(came.union(move.shown_again(routine, earlier))))


def _name(job: ScheduledJob) -> str:
    kind, job_id = key_of(job)
    return f"{kind}:{job_id}"
