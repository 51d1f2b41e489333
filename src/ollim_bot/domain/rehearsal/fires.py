"""One due moment of a rehearsal, and what would become of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ollim_bot.domain.catch_up import is_late
from ollim_bot.domain.jobs import is_ordered
from ollim_bot.domain.occurrences import OccurrenceState, SkipReason
from ollim_bot.domain.schedule import ScheduledJob


class Ping(StrEnum):
    """What becomes of the one ping of a run; what was ordered comes whatever happens."""

    NONE = "none"
    SENT = "sent"
    REFUSED = "refused"
    ORDERED = "ordered"


@dataclass(frozen=True, slots=True)
class Guess:
    """What nobody can know before: how long each run takes, at whose end it pings once."""

    run: timedelta = timedelta(minutes=2)


@dataclass(slots=True)
class Fire:
    """Moments are in UTC. At `at` the bot takes it in hand, and at `starts` the agent does.

    `starts` is None for what is not run at all.
    """

    job: ScheduledJob
    due: datetime
    at: datetime
    state: OccurrenceState = OccurrenceState.DONE
    reason: SkipReason | None = None
    starts: datetime | None = None
    ping: Ping = Ping.NONE

    @property
    def is_late(self) -> bool:
        return is_late(self.due, self.at)

    @property
    def wait(self) -> timedelta:
        """For others, which were there before."""
        return timedelta() if self.starts is None else self.starts - self.at

    @property
    def is_ordered(self) -> bool:
        return is_ordered(self.job)
