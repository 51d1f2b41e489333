"""Rehearses the jobs: the days to come, as the real schedule would go through them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from heapq import merge
from itertools import islice

from ollim_bot.domain.rehearsal.circumstances import Circumstances
from ollim_bot.domain.rehearsal.coming import by_timing, caught_up, coming
from ollim_bot.domain.rehearsal.fires import Fire, Guess, Ping
from ollim_bot.domain.rehearsal.play import Play
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
    given: Circumstances,
    days: int,
    *,
    guess: Guess | None = None,
    most: int = MOST_FIRES,
) -> Rehearsal:
    """All that fires in so many `days`; fewer days, where there are more than `most` fires."""
    longest = timedelta(seconds=given.config.bg_fork_timeout)
    guess = Guess(min((guess or Guess()).run, longest))
    alike = by_timing(sorted((job for job in jobs if job.spec.enabled), key=key_of), given.zone)
    start, end = given.now.astimezone(UTC), given.now.astimezone(UTC) + timedelta(days=days)
    begun, superseded = caught_up(alike, given)
    ordered = merge(begun, coming(alike, start, end, given.zone), key=lambda fire: fire.at)
    fires = [*islice(ordered, most + 1)]
    is_whole = len(fires) <= most
    if not is_whole:
        end = fires.pop().at
    Play(given, guess.run).through(fires)
    fires.sort(key=lambda fire: fire.due)
    return Rehearsal(
        now=given.now.astimezone(given.zone),
        until=end.astimezone(given.zone),
        zone=given.zone,
        guess=guess,
        places=given.config.bg_concurrency,
        fires=tuple(fires),
        superseded=superseded,
        is_whole=is_whole,
    )
