"""Whether the bot was stopped, restarted or cut off before this start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Presence:
    """`running_since` is None after a regular stop.

    `cut_off_at` is when the bot last ran before a crash that the owner was not told of yet.
    `version` is that of the last start. `failure` is why the bot last ended by itself, at
    `failed_at`; a start keeps it, a regular stop does not.
    """

    running_since: datetime | None = None
    stopped_for_restart: bool = False
    cut_off_at: datetime | None = None
    version: str = ""
    failure: str = ""
    failed_at: datetime | None = None

    def begun(self, now: datetime, heartbeat: datetime | None, version: str = "") -> Presence:
        """Record a start. Without a stop since the start before, there was a crash."""
        started, cut_off = self.running_since, self.cut_off_at
        if started is not None:
            cut_off = max(started, heartbeat or started)
        return replace(self, running_since=now, cut_off_at=cut_off, version=version)

    def ended(self, *, for_restart: bool) -> Presence:
        return Presence(None, for_restart, self.cut_off_at, self.version)

    def failed(self, reason: str, now: datetime) -> Presence:
        """Record why the bot has ended by itself."""
        return replace(self, failure=reason, failed_at=now)

    def greeted(self) -> Presence:
        """Record that the owner was told of the crash, if there was one."""
        return replace(self, cut_off_at=None)


@dataclass(frozen=True, slots=True)
class PassedOver:
    """What was due after `since` and not after `until` is told, and does not run.

    It may have been done already: the state is that of a backup of `since`, restored at `until`, or
    of another copy, after which the bot ran until `until` at most. Both are None if nothing is to
    be passed over.
    """

    since: datetime | None = None
    until: datetime | None = None
    is_backup: bool = True
