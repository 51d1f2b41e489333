"""Lets turns of routines wait for the end of the quiet, of each routine the newest."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from datetime import UTC, datetime
from typing import NamedTuple

from ollim_bot.clock import wait_until_set, zone_of
from ollim_bot.conversation.disk_gate import DiskGate
from ollim_bot.domain.jobs import Routine
from ollim_bot.domain.moments import elapsed
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.quiet import quiet_until
from ollim_bot.domain.run_history import HELD
from ollim_bot.domain.schedule import JobKey, key_of, next_due
from ollim_bot.ports import Clock
from ollim_bot.schedule.circumstances import DueOccurrence
from ollim_bot.store.steps import quiet_settings
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

# The wall clock may be set, or the machine may sleep.
_LONGEST_SLEEP = 30.0
_CAUSES = frozenset({"held", "quiet", "config", "zone"})
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class _Waiter(NamedTuple):
    occurrence: Occurrence
    changed: asyncio.Event
    is_replaced: asyncio.Event


class QuietWaits:
    """A turn waits until the quiet has ended and the digest has come."""

    def __init__(self, store: Store, gate: DiskGate, clock: Clock) -> None:
        self._store = store
        self._gate = gate
        self._clock = clock
        self._waiters: dict[JobKey, _Waiter] = {}

    @property
    def waiting(self) -> Set[JobKey]:
        return self._waiters.keys()

    async def wait(self, due: DueOccurrence, until: datetime) -> bool:
        """Return when the occurrence may run; False if a newer moment takes its place."""
        key, one = key_of(due.job), due.occurrence
        known = self._waiters.get(key)
        if known is not None and _moment(known.occurrence) > _moment(one):
            return False
        self.replace_older(due)
        waiter = _Waiter(one, asyncio.Event(), asyncio.Event())
        self._waiters[key] = waiter
        unsubscribe = self._store.subscribe(
            lambda names: waiter.changed.set() if names & _CAUSES else None
        )
        try:
            await self._gate.commit(lambda tx: _note_wait(tx, one, until))
            while not waiter.is_replaced.is_set():
                waiter.changed.clear()
                seconds = await self._seconds_left()
                if not seconds:
                    return not self._has_newer(due)
                await wait_until_set(waiter.changed, self._clock, seconds)
            return False
        finally:
            unsubscribe()
            if self._waiters.get(key) is waiter:
                del self._waiters[key]

    def replace_older(self, due: DueOccurrence) -> None:
        """End the wait of an earlier moment of the same job."""
        waiter = self._waiters.get(key_of(due.job))
        is_later = waiter is not None and _moment(due.occurrence) > _moment(waiter.occurrence)
        if waiter is not None and is_later and not due.occurrence.manual:
            waiter.is_replaced.set()
            waiter.changed.set()

    def _has_newer(self, due: DueOccurrence) -> bool:
        """Whether a later moment of the routine is due, such as one at the end of the quiet."""
        job, at = due.job, due.occurrence.scheduled_at
        if not isinstance(job, Routine) or at is None:
            return False
        following = next_due(job, at, zone_of(self._clock))
        return following is not None and following <= self._clock.now()

    async def _seconds_left(self) -> float:
        """How long to wait before the next look; 0 if the wait is over."""
        settings, has_waiting = await self._store.read(
            lambda tx: (quiet_settings(tx), bool(tx.held.get().waiting))
        )
        now = self._clock.now()
        until = quiet_until(settings, now)
        if until is None:
            return _LONGEST_SLEEP if has_waiting else 0.0
        return min(_LONGEST_SLEEP, elapsed(now, until).total_seconds())


def _note_wait(tx: Transaction, one: Occurrence, until: datetime) -> None:
    if not tx.ledger.story(one).held:
        tx.ledger.append(LedgerRow(tx.now, HELD, one, {"until": until.isoformat()}))


def _moment(one: Occurrence) -> datetime:
    return one.scheduled_at or _LONG_AGO
