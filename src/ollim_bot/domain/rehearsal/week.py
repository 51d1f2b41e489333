"""A rehearsed week that is kept, and what it becomes when one job changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from heapq import merge

from ollim_bot.domain.costs import PastCosts
from ollim_bot.domain.job_kinds import JobKey
from ollim_bot.domain.rehearsal.difference import Difference, RehearsedSide, difference
from ollim_bot.domain.rehearsal.findings import DAYS, Finding, findings
from ollim_bot.domain.rehearsal.fires import Assumptions, Fire, by_timing, coming
from ollim_bot.domain.rehearsal.simulation import MOST_FIRES, Rehearsal, Simulation, rehearse
from ollim_bot.domain.schedule import ScheduledJob, key_of


@dataclass(frozen=True, slots=True)
class RehearsedWeek:
    """The coming week of a bot that runs, and so has missed nothing."""

    jobs: dict[JobKey, ScheduledJob]
    given: Assumptions
    rehearsal: Rehearsal
    findings: Sequence[Finding]

    @property
    def now(self) -> datetime:
        return self.rehearsal.now

    def replanned(self, before: JobKey | None, after: ScheduledJob | None) -> Rehearsal:
        """The week with `after` in place of the job `before`, as `rehearse` would give it.

        It has no `budgets`. A text that is sent as written takes no run and no token: it changes
        nothing of other jobs, and none of them changes it.
        """
        new = [] if after is None else [after]
        keys = {before, *map(key_of, new)}
        gone = [*new, *(job for key, job in self.jobs.items() if key in keys)]
        gone_ids, touches_others = {*map(id, gone)}, not all(job.spec.plain for job in gone)
        kept: list[Fire] = []
        again: list[Fire] = []
        for fire in self.rehearsal.fires:
            if id(fire.job) not in gone_ids:
                is_free = fire.job.spec.plain or not touches_others
                (kept if is_free else again).append(fire)
        start, end = (each.astimezone(UTC) for each in (self.now, self.rehearsal.until))
        alike = by_timing((job for job in new if job.spec.enabled), self.given.zone)
        added = [*coming(alike, start, end, self.given.zone)]
        if not self.rehearsal.is_whole or len(kept) + len(again) + len(added) > MOST_FIRES:
            others = [job for key, job in self.jobs.items() if key not in keys]
            return replace(rehearse([*others, *new], self.given, DAYS), budgets=())
        copies = [Fire(fire.job, fire.due, fire.at) for fire in again]
        played = [*merge(copies, added, key=_order)]
        Simulation(self.given, self.rehearsal.guess.run, end).play(played)
        fires = tuple(merge(kept, played, key=_order))
        return replace(self.rehearsal, fires=fires, budgets=())

    def difference(
        self, before: ScheduledJob | None, after: ScheduledJob | None, costs: PastCosts
    ) -> Difference:
        """What `after` in place of `before` changes; None is a job that is not there."""
        rehearsal = self.replanned(None if before is None else key_of(before), after)
        keys = {key_of(job) for job in (before, after) if job is not None}
        return difference(
            RehearsedSide(self.rehearsal, self.findings, before),
            RehearsedSide(rehearsal, findings(rehearsal, keys), after),
            costs,
        )


def rehearse_week(jobs: Iterable[ScheduledJob], given: Assumptions) -> RehearsedWeek:
    """Rehearse the coming week of a bot that runs."""
    by_key = {key_of(job): job for job in jobs}
    given = replace(given, watched_until=None)
    rehearsal = rehearse(by_key.values(), given, DAYS)
    return RehearsedWeek(by_key, given, rehearsal, findings(rehearsal))


def _order(fire: Fire) -> tuple[datetime, JobKey]:
    return fire.due, key_of(fire.job)
