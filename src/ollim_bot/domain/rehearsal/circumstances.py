"""What a rehearsal begins with: the moment, and all that decides what may run and ping then."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from datetime import datetime, tzinfo

from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.runtime_config import RuntimeConfig


@dataclass(frozen=True, slots=True)
class Circumstances:
    """`zone` is the owner's. With `watched_until`, the bot ran until then and is started `now`.

    `skills` are those that are there; if they are not given, none is missed. `is_skipped` tells
    what the owner wants left out.
    """

    now: datetime
    zone: tzinfo
    budget: PingBudget
    config: RuntimeConfig
    watched_until: datetime | None = None
    skills: Set[str] | None = None
    is_skipped: Callable[[Occurrence], bool] | None = None
