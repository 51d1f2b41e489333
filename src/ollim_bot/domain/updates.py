"""Pending updates: short summaries that wait for the main session, each seen by it exactly once.

The main session takes them in three steps, so that a crash between any two loses and doubles
nothing. `pop_pending_updates` claims all that wait; the claim is written down elsewhere before the
waiting ones are gone. Then either the engine has taken the prompt and the claim is `committed`, or
it has not and the claim is `restored`. Both may be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

MAX_PENDING_UPDATES = 10


@dataclass(frozen=True, slots=True)
class PendingUpdate:
    """`id` tells apart two updates of the same text; entries written by hand may lack one."""

    ts: datetime
    message: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class PendingUpdates:
    """What waits, oldest first, and how many earlier ones gave way since the last pop."""

    entries: tuple[PendingUpdate, ...] = ()
    omitted: int = 0

    def appended(self, update: PendingUpdate) -> tuple[PendingUpdates, tuple[PendingUpdate, ...]]:
        """With `update` at the end, and the updates that gave way to it.

        One place of the full number is kept for the line that tells how many are missing.
        """
        entries = (*self.entries, update)
        if len(entries) + bool(self.omitted) <= MAX_PENDING_UPDATES:
            return replace(self, entries=entries), ()
        cut = len(entries) - (MAX_PENDING_UPDATES - 1)
        return PendingUpdates(entries[cut:], self.omitted + cut), entries[:cut]

    def restored(self, claim: PendingUpdates) -> PendingUpdates:
        """With a claim whose prompt was never taken back at the front, in its order."""
        if self._holds_any_of(claim):
            return self
        return PendingUpdates(claim.entries + self.entries, claim.omitted + self.omitted)

    def committed(self, claim: PendingUpdates) -> PendingUpdates:
        """Without a claim whose prompt was taken, also if it was never removed from here."""
        if not self._holds_any_of(claim):
            return self
        rest = tuple(entry for entry in self.entries if entry not in claim.entries)
        return PendingUpdates(rest, max(0, self.omitted - claim.omitted) if rest else 0)

    def _holds_any_of(self, claim: PendingUpdates) -> bool:
        # Claiming takes everything at once, so a single claimed entry that is still here shows
        # that the process died before the claim left the file.
        return any(entry in claim.entries for entry in self.entries)


def pop_pending_updates(pending: PendingUpdates) -> tuple[PendingUpdates, PendingUpdates]:
    """What is left to wait (nothing), and the claim."""
    return PendingUpdates(), pending


def omission_notice(omitted: int) -> str:
    """The line that stands first when earlier updates gave way."""
    return f"({omitted} earlier update(s) omitted — cap reached)"
