"""A rehearsed week that is kept, and what it becomes when one job changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import merge

from ollim_bot.domain.costs import PastCosts
from ollim_bot.domain.job_kinds import JobKey
from ollim_bot.domain.rehearsal.difference import Difference, RehearsedSide, difference
from ollim_bot.domain.rehearsal.findings import DAYS, Finding, findings
from ollim_bot.domain.rehearsal.fires import Assumptions, Fire
from ollim_bot.domain.rehearsal.simulation import MOST_FIRES, Rehearsal, rehearse
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
        others = [job for key, job in self.jobs.items() if key not in keys]
        changed = [*new, *(job for key, job in self.jobs.items() if key in keys)]
        touches_others = not all(job.spec.plain for job in changed)
        played = [*new, *(job for job in others if touches_others and not job.spec.plain)]
        rehearsal = rehearse(played, self.given, DAYS)
        again = {*map(id, [*played, *changed])}
        kept = [fire for fire in self.rehearsal.fires if id(fire.job) not in again]
        if not self.rehearsal.is_whole or len(kept) + len(rehearsal.fires) > MOST_FIRES:
            return replace(rehearse([*others, *new], self.given, DAYS), budgets=())
        fires = tuple(merge(kept, rehearsal.fires, key=_order))
        return replace(rehearsal, fires=fires, budgets=())

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
