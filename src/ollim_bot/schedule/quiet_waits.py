"""Lets turns of routines wait for the end of the quiet, of each routine the newest."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

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


class QuietWaits:
    """A turn waits until the quiet has ended and the digest has come."""

    def __init__(self, store: Store, gate: DiskGate, clock: Clock) -> None:
        self._store = store
        self._gate = gate
        self._clock = clock
        self._waiting: Counter[JobKey] = Counter()

    def count(self, key: JobKey) -> int:
        """How many occurrences of the job wait."""
        return self._waiting[key]

    async def wait(self, due: DueOccurrence, until: datetime) -> bool:
        """Return when the occurrence may run; False if a newer moment takes its place."""
        key, one = key_of(due.job), due.occurrence
        self._waiting[key] += 1
        try:
            with self._store.changes(*_CAUSES) as changed:
                await self._gate.commit(lambda tx: _note_wait(tx, one, until))
                while not self._has_newer(due):
                    changed.clear()
                    seconds = await self._seconds_left()
                    if not seconds:
                        return not self._has_newer(due)
                    await wait_until_set(changed, self._clock, seconds)
                return False
        finally:
            self._waiting[key] -= 1

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
