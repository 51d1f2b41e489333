"""Limits what background runs set: a bounded number of jobs, within the ping budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TypeVar

from ollim_bot.domain.jobs import Job, is_ordered, kind_of
from ollim_bot.domain.runs import Run
from ollim_bot.domain.taint import Taint, marked_taint

MOST_PER_RUN = 3
MOST_PER_DAY = 10

NOT_ONES_OWN = (
    "only the program and the owner's hand say who has set a job; leave this line as it was"
)
KEEPS_MARK = (
    "the text comes from untrusted content, and only the owner's hand removes the mark; leave this "
    "line as it was"
)
NO_RUN = (
    "A background run cannot run another job. Set a reminder for it, or leave it with "
    "`report_updates`."
)
_INSTEAD = "Leave the rest with `report_updates`, or end without it."
_UNKNOWN = "routine:unknown"

J = TypeVar("J", bound=Job)


@dataclass(frozen=True, slots=True)
class Setter:
    """The background run that sets a job: the id of its occurrence, and its own job."""

    run: str
    job: str
    allow_ping: bool


def setter_of(run: Run) -> Setter | None:
    """The setter; None in the conversation and its forks, where the owner takes part."""
    if not run.policy.kind.is_background:
        return None
    job = _UNKNOWN if run.job is None else f"{kind_of(run.job)}:{run.job.spec.id}"
    return Setter(run.occurrence, job, run.policy.allow_ping)


def set_by(job: J, setter: Setter) -> J:
    """The job marked with its setter; it may ping only if the setter may."""
    may_ping = job.spec.allow_ping and setter.allow_ping
    return replace(job, spec=replace(job.spec, set_by=setter.job, allow_ping=may_ping))


def marked(job: J, taint: Taint) -> J:
    """The job with the untrusted sources that the run had read when it set the job."""
    known = marked_taint(job.spec.untrusted).sources
    mark = Taint((*known, *taint.sources)).mark
    return replace(job, spec=replace(job.spec, untrusted=mark)) if mark else job


def is_initiative(job: Job) -> bool:
    """Whether the job needs a ping of the budget when it is due."""
    return job.spec.set_by is not None and job.spec.allow_ping


def comes_unpaid(job: Job) -> bool:
    """Whether the job reaches the owner without the ping budget."""
    return is_ordered(job) or not job.spec.background


def objections(before: Job | None, after: Job, setter: Setter) -> Iterator[str]:
    """Why a background run may not turn `before` into `after`; `before` is None for a new job."""
    if before is None:
        yield from _to_new(after, setter)
    else:
        yield from _to_change(before, after)
    if after.spec.allow_ping and not setter.allow_ping:
        yield "allow-ping: this run may not ping, so what it sets may not either; make it false"


def _to_new(job: Job, setter: Setter) -> Iterator[str]:
    if job.spec.must:
        yield "must: only what the owner asked for comes whatever happens; leave it out"
    spec = job.spec
    fields = {"plain": spec.plain, "kind": spec.kind, "nag": spec.nag, "before": spec.before}
    for name in (name for name, value in fields.items() if value):
        yield f"{name}: this is only for what the owner asked for; leave it out"
    if not job.spec.background:
        yield "background: what a background run sets runs in the background; make it true"
    if job.spec.set_by != setter.job:
        yield f"set-by: a background run sets this, so it needs the line `set-by: {setter.job}`"


def _to_change(before: Job, after: Job) -> Iterator[str]:
    if after.spec.set_by != before.spec.set_by:
        yield f"set-by: {NOT_ONES_OWN}"
    if comes_unpaid(before) or comes_unpaid(after):
        yield (
            "what the owner asked for cannot be changed in the background; leave what should "
            "change with `report_updates`"
        )
    if after.spec.enabled and not before.spec.enabled:
        yield "enabled: it was paused, and a background run does not resume it"
    if after.spec.allow_ping and not before.spec.allow_ping:
        yield "allow-ping: only the owner can let a silent job ping"


@dataclass(frozen=True, slots=True)
class SetInBackground:
    """The jobs that background runs set recently: the run and the day of each, oldest first."""

    entries: tuple[tuple[str, date], ...] = ()

    def one_more(self, run: str, today: date) -> tuple[SetInBackground, str]:
        """Add a job that `run` sets today; otherwise unchanged, with the reason of the refusal.

        A run that continues past midnight stays the same run. A clock set back makes no room.
        """
        if sum(each == run for each, _ in self.entries) >= MOST_PER_RUN:
            return self, f"A run sets {MOST_PER_RUN} jobs at most, and this one has. {_INSTEAD}"
        if sum(day >= today for _, day in self.entries) >= MOST_PER_DAY:
            most = f"Background runs set {MOST_PER_DAY} jobs a day at most, and today they have."
            return self, f"{most} {_INSTEAD}"
        recent = (entry for entry in self.entries if today - entry[1] <= timedelta(days=1))
        return SetInBackground((*recent, (run, today))), ""
