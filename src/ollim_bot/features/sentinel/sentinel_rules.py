"""When the sentinel acts in the place of a bot that does not run, for what, and in which words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import NamedTuple

from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.values.jobs import Routine
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.schedule import (
    ScheduledJob,
    last_due,
    moments_between,
    next_due,
    occurrence_at,
)

# A bot whose heartbeat is older than this counts as dead.
SILENT = timedelta(minutes=5)
# A run ends before the timer starts the next one.
LONGEST_RUN = timedelta(seconds=280)
# After the machine has slept, or after the supervisor was asked, the bot has so long to beat.
PATIENCE = timedelta(seconds=60)


class BotState(StrEnum):
    """What is known of the bot."""

    UNUSED = "never started"
    RUNNING = "running"
    SILENT = "silent"
    STOPPED = "stopped"
    UPDATE = "update"
    RESTORE = "restore"
    CUT_OFF = "without its database"

    @property
    def may_be_started(self) -> bool:
        return self is BotState.SILENT

    @property
    def keeps_database(self) -> bool:
        """Whether the database may be written: an update or a restore may replace it."""
        return self not in (BotState.UPDATE, BotState.RESTORE, BotState.CUT_OFF)


_REASONS = {
    BotState.STOPPED: "The bot is stopped; this came from its watch.",
    BotState.UPDATE: "The bot is being updated; this came from its watch.",
    BotState.CUT_OFF: "The database cannot be reached; this came from the bot's watch.",
    BotState.RESTORE: "A backup is being restored; this came from the bot's watch.",
}


def reason_of(state: BotState) -> str:
    """The footer of what the sentinel delivers."""
    return _REASONS.get(state, "The bot does not answer; this came from its watch.")


def brought(title: str, at: datetime, now: datetime) -> str:
    """What the bot tells of a delivery when it runs again."""
    return f"While I was away, my watch brought “{title}” {describe(at, now)}."


def not_brought(title: str, due: datetime, now: datetime) -> str:
    """What the bot tells instead, if nothing confirms that it reached the owner."""
    when = describe(due, now)
    return f"While I was away, “{title}” was due {when}, and my watch may not have reached you."


def perhaps_again(title: str) -> str:
    """The words of a notification that may have been shown before."""
    return f"{title} (this may be the second time it is shown)"


def acts_from(heartbeat: datetime, now: datetime) -> datetime:
    """The moment from which on the bot counts as dead.

    After the clock was set back, the age of the heartbeat is unknown: a bot that runs beats soon.
    """
    heartbeat, now = heartbeat.astimezone(UTC), now.astimezone(UTC)
    return heartbeat + SILENT if heartbeat <= now else now + PATIENCE


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """An occurrence that must be delivered at `due`."""

    job: ScheduledJob
    occurrence: Occurrence
    due: datetime


def due_deliveries(
    jobs: Iterable[ScheduledJob], heartbeat: datetime, now: datetime, zone: tzinfo
) -> list[DueDelivery]:
    """What must be delivered and is due since the heartbeat, or becomes due during this run.

    Of the missed moments of one routine only the newest counts. Every due reminder counts that
    still has its file.
    """
    end = now.astimezone(UTC) + LONGEST_RUN
    # After the clock was set back, the time of the last run is as good a beginning as any.
    since = min(heartbeat, now - LONGEST_RUN).astimezone(UTC)
    found: list[DueDelivery] = []
    for job in jobs:
        moments: list[datetime | None] = []
        if job.must and isinstance(job, Routine):
            newest = last_due(job, now, zone)
            moments = [newest if newest and newest > since else None]
            moments += moments_between(job, now, end, zone)
        elif job.must:
            moments = [next_due(job, datetime.min.replace(tzinfo=UTC), zone)]
        due = (at for at in moments if at is not None and at <= end)
        found += [DueDelivery(job, occurrence_at(job, at), at) for at in due]
    return sorted(found, key=lambda one: (one.due, one.occurrence.id))


class Outcome(NamedTuple):
    """One delivery: `through` is empty if it did not reach the owner.

    `kept_in` is `ledger`, `sentinel.json`, or empty if it could not be kept. `missed` are the
    channels on which it did not arrive, and `problem` says why.
    """

    title: str
    occurrence: str
    due: datetime
    at: datetime
    through: tuple[str, ...] = ()
    kept_in: str = ""
    problem: str = ""
    missed: tuple[str, ...] = ()


@dataclass(slots=True)
class SentinelReport:
    """What a run saw and did."""

    state: BotState
    heartbeat: datetime | None = None
    waits_for: list[DueDelivery] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    is_revived: bool = False
    came_back: bool = False
    is_second: bool = False

    def note(self, outcome: Outcome) -> None:
        """Report the delivery, in the place of an earlier try of this run."""
        others = [each for each in self.outcomes if each.occurrence != outcome.occurrence]
        self.outcomes = [*others, outcome]

    @property
    def has_failed(self) -> bool:
        return any(not each.through for each in self.outcomes)
