"""The health of the installation as the page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class HealthLine:
    """What a check found: `PASS`, `WARN`, `FAIL` or `OFF`, and the next step to take."""

    level: str
    name: str
    detail: str
    next: str = ""
    can_fix: bool = False

    @property
    def is_right(self) -> bool:
        return self.level in ("PASS", "OFF")


@dataclass(frozen=True, slots=True)
class WayOut:
    """A channel, the moment of the newest message that it confirmed, and how many wait for it."""

    name: str
    newest: datetime | None
    waiting: int


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The last examination; `looked` is None before the first."""

    now: datetime
    lines: Sequence[HealthLine] = ()
    looked: datetime | None = None
    is_looking: bool = False
    ways: Sequence[WayOut] = ()
    pending_updates: int = 0
