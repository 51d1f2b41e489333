"""When the upkeep of a day is due, and what was done of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class DailyRecord:
    """`begun` has the last day on which each task was begun, in the owner's zone."""

    begun: Mapping[str, date] = field(default_factory=dict)

    def with_task(self, name: str, day: date) -> DailyRecord:
        return replace(self, begun={**self.begun, name: day})


def is_due(now: datetime, hour: int, begun: date | None, *, only_in_hour: bool) -> bool:
    """Whether a task of the day is due at `now`, which is in the owner's zone.

    It is due once a day, from the hour on: until midnight, or with `only_in_hour` for an hour. An
    hour that the clock leaves out begins when the clock goes on; one that comes twice counts once.
    """
    if begun == now.date():
        return False
    start = now.replace(hour=hour, minute=0, second=0, microsecond=0, fold=0).astimezone(UTC)
    since = now.astimezone(UTC) - start
    return timedelta() <= since and (since < _HOUR or not only_in_hour)
