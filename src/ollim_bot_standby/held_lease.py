"""The lease of the machine that leads: until when its holder may act, decided without a server."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Self

# In seconds. A standby asks for the lease so often.
ASK_EVERY = 2.0
# In seconds. The holder gives up before another machine can take over, by its own clock.
RENEW_EVERY, GIVE_UP_AFTER, EXPIRES_AFTER = 5.0, 10.0, 15.0


@dataclass(frozen=True, slots=True)
class HeldLease:
    """`holder` is random for each start of a process; each take-over raises `epoch` by one.

    `renewed_at` is when the last successful renewal was asked for, by a clock that never stops, not
    even while the machine sleeps. The server counts from a later moment, so it expires later there.
    """

    holder: str
    epoch: int
    renewed_at: float

    def renewed(self, asked_at: float) -> Self:
        return replace(self, renewed_at=asked_at)

    def is_renewal_due(self, now: float) -> bool:
        return self.renewed_at + RENEW_EVERY <= now and self.may_act(now)

    def may_act(self, now: float) -> bool:
        """Whether no other process can lead yet; asked before all that cannot be undone."""
        return self.renewed_at <= now < self.renewed_at + GIVE_UP_AFTER


# macOS counts its sleep in the monotonic clock; Linux has another one for that.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_time() -> float:
    """Seconds since an unknown moment, by a clock that goes on while the machine sleeps."""
    return time.clock_gettime(_BOOT_CLOCK)
