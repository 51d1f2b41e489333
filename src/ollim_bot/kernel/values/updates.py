"""Pending updates: short summaries for the main session, which sees each exactly once.

The main session takes them in three steps, so that a crash between any two loses and repeats
nothing. It claims all pending updates, and the claim is stored elsewhere in the same step. Then the
claim is `committed` if the engine has taken the prompt, or `restored` if it has not. Both may be
repeated until the next claim.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from datetime import datetime

MAX_PENDING_UPDATES = 10

# Begins an update of what the owner did themselves.
KNOWN_TO_OWNER = "Known to the owner: "


@dataclass(frozen=True, slots=True)
class PendingUpdate:
    """`id` distinguishes updates with the same text; entries written by hand may lack one.

    `untrusted` names what the run that left it had read; empty if that was nothing untrusted.
    """

    ts: datetime
    message: str
    id: str | None = None
    untrusted: str = ""

    @property
    def name(self) -> str:
        return self.id or f"{self.ts.isoformat()} {self.message}"


@dataclass(frozen=True, slots=True)
class PendingUpdates:
    """The pending updates, oldest first; `omitted` counts those dropped since the last pop.

    `since` names the first dropped update, if any was.
    """

    entries: tuple[PendingUpdate, ...] = ()
    omitted: int = 0
    since: str | None = None

    def appended(self, update: PendingUpdate) -> tuple[PendingUpdates, tuple[PendingUpdate, ...]]:
        """The updates with `update` at the end, and those that were dropped for it.

        One place of the full number is reserved for the line that counts the missing ones.
        """
        entries = (*self.entries, update)
        if len(entries) + bool(self.omitted) <= MAX_PENDING_UPDATES:
            return replace(self, entries=entries), ()
        cut = len(entries) - (MAX_PENDING_UPDATES - 1)
        return PendingUpdates(entries[cut:], self.omitted + cut, self._first), entries[:cut]

    def without(self, ids: Container[str | None]) -> PendingUpdates:
        """Without updates that are no longer true."""
        return replace(self, entries=tuple(each for each in self.entries if each.id not in ids))

    def restored(self, claim: PendingUpdates) -> PendingUpdates:
        """The updates with a claim, whose prompt was never taken, at the front again."""
        if self._first == claim._first:  # the claim never left the file
            return self
        omitted = claim.omitted + self.omitted
        first = claim._first or self._first
        return PendingUpdates(claim.entries + self.entries, omitted, first if omitted else None)

    def committed(self, claim: PendingUpdates) -> PendingUpdates:
        """The updates without a claim whose prompt was taken, even if it never left the file."""
        # A claim takes all updates at once. So if the first update since the last pop is still the
        # first one of the claim, the process died before the claim left the file, and the file
        # holds the claim and all that was appended since.
        if self._first != claim._first:
            return self
        claimed = claim.omitted + len(claim.entries)
        entries = self.entries[max(0, claimed - self.omitted) :]
        omitted = max(0, self.omitted - claimed)
        return PendingUpdates(entries, omitted, entries[0].name if omitted else None)

    @property
    def _first(self) -> str | None:
        return self.since or (self.entries[0].name if self.entries else None)


def owner_did(now: datetime, what: str, update_id: str) -> PendingUpdate:
    """An update of what the owner did without the agent, who need not mention it."""
    return PendingUpdate(now, f"{KNOWN_TO_OWNER}{what}", update_id)


def omission_notice(omitted: int) -> str:
    """The first line when earlier updates were dropped."""
    return f"({omitted} earlier update(s) omitted — cap reached)"
