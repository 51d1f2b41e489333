"""Rehearses the jobs: the days to come, as the real schedule would go through them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from heapq import merge
from itertools import islice

from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.rehearsal.coming import by_timing, caught_up, coming
from ollim_bot.domain.rehearsal.fires import Fire, Guess, Ping
from ollim_bot.domain.rehearsal.play import Play
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.domain.schedule import ScheduledJob, key_of

MOST_FIRES = 200_000


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """`fires` are in the order in which they are due; what comes after `until` is not known.

    `places` is how many background runs there are at once. `superseded` counts what was missed
    and gave way to a later moment of its job. `now` and `until` are in the owner's zone.
    """

    now: datetime
    until: datetime
    zone: tzinfo
    guess: Guess
    places: int
    fires: tuple[Fire, ...]
    superseded: int
    is_whole: bool

    @property
    def dry_days(self) -> frozenset[date]:
        """On which a ping would be refused for lack of budget."""
        refused = (fire for fire in self.fires if fire.ping is Ping.REFUSED)
        return frozenset(fire.due.astimezone(self.zone).date() for fire in refused)


def rehearse(
    jobs: Iterable[ScheduledJob],
    budget: PingBudget,
    config: RuntimeConfig,
    now: datetime,
    zone: tzinfo,
    days: int,
    *,
    watched_until: datetime | None = None,
    guess: Guess | None = None,
    skills: Set[str] | None = None,
    is_skipped: Callable[[Occurrence], bool] | None = None,
    most: int = MOST_FIRES,
) -> Rehearsal:
    """As if the bot ran on, or were started now after it had run until `watched_until`.

    `skills` are those that are there; if they are not given, none is missed. `is_skipped` tells
    what the owner wants left out. It ends early where there are more than `most` fires.
    """
    longest = timedelta(seconds=config.bg_fork_timeout)
    guess = Guess(min((guess or Guess()).run, longest))
    alike = by_timing(sorted((job for job in jobs if job.spec.enabled), key=key_of), zone)
    start, end = now.astimezone(UTC), now.astimezone(UTC) + timedelta(days=days)
    begun: list[Fire] = []
    superseded = 0
    if watched_until is not None:
        watched_until = min(watched_until.astimezone(UTC), start)
        begun, superseded = caught_up(alike, watched_until, start, zone, is_skipped)
    ordered = merge(begun, coming(alike, start, end, zone), key=lambda fire: fire.at)
    fires = [*islice(ordered, most + 1)]
    is_whole = len(fires) <= most
    if not is_whole:
        end = fires.pop().at
    Play(budget, config, zone, guess.run, skills, is_skipped).through(fires)
    fires.sort(key=lambda fire: fire.due)
    return Rehearsal(
        now.astimezone(zone),
        end.astimezone(zone),
        zone,
        guess,
        config.bg_concurrency,
        tuple(fires),
        superseded,
        is_whole,
    )
