"""Decides what a due occurrence leads to.

Dispatch, catch-up after an absence, recovery after a crash, background retries and the rehearsal
all call `decide`; none of them decides by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from ollim_bot.kernel.values.jobs import Job, Late, Reminder, Routine, is_initiative
from ollim_bot.kernel.values.occurrences import (
    OccurrenceState,
    Progress,
    SkipReason,
    is_unwanted,
    may_follow,
)
from ollim_bot.kernel.values.schedule import late_rule
from ollim_bot.kernel.values.tool_patterns import problems

BETWEEN_LATE_RUNS = timedelta(seconds=5)

# How long a run may take to deliver a `must` reminder before the program delivers it.
_PATIENCE = timedelta(seconds=60)
_NO_PAUSE = timedelta()
_RETRY_PAUSES = (timedelta(seconds=5), timedelta(seconds=30))


_NOT_BEGUN = Progress()


class Circumstances(NamedTuple):
    """Everything that a decision about one occurrence depends on, besides its job.

    `due` is None for a call. `was_away` says that the program did not run, or slept,
    so that lateness is judged. `has_just_failed` says that the previous attempt failed in this
    process. `is_skipped` says that the owner wants the moment skipped. `is_queued` says that the
    occurrence is in the inbox of the conversation. `is_superseded` says that a newer moment of the
    routine replaces it. `is_running` says that another run of the job is going on.
    `reached_cost_cap` is the daily cap in dollars, if today has cost as much. `has_ping_token` says
    that the ping budget has a token for a run that needs one. `can_screen` says that there is a
    language model to judge the text of a stranger. `excess_tools` are sentences about tools that a
    skill would add to the job and may not. `quiet_until` is the end of the quiet that holds now,
    if one does; `has_waited` says that the occurrence has waited for such an end.
    """

    due: datetime | None
    now: datetime
    zone: tzinfo
    progress: Progress = _NOT_BEGUN
    is_manual: bool = False
    was_away: bool = False
    has_just_failed: bool = False
    is_skipped: bool = False
    is_queued: bool = False
    is_superseded: bool = False
    is_running: bool = False
    reached_cost_cap: float | None = None
    missing_skills: Sequence[str] = ()
    excess_tools: Sequence[str] = ()
    has_ping_token: bool = True
    can_screen: bool = True
    quiet_until: datetime | None = None
    has_waited: bool = False


@dataclass(frozen=True, slots=True)
class RunInForeground:
    """Put the occurrence into the inbox of the conversation, or leave it there."""


@dataclass(frozen=True, slots=True)
class WaitForQuietEnd:
    """Wait for the end of the quiet and for its digest, then decide again.

    A newer moment of the job takes its place.
    """

    until: datetime


@dataclass(frozen=True, slots=True)
class RunInBackground:
    """Wait for `pause`, then start the attempt with this number."""

    attempt: int
    pause: timedelta = _NO_PAUSE


@dataclass(frozen=True, slots=True)
class DeliverPlainly:
    """Have the program deliver the text now, and end as `done`: no model is asked."""


@dataclass(frozen=True, slots=True)
class Skip:
    """End as `skipped`.

    `detail` describes the problem with the tools or with the text of a stranger, names the missing
    skill, gives the cost cap in dollars, or says why the job is not wanted.
    """

    reason: SkipReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Miss:
    """End as `missed`, and tell the owner or not."""

    is_told: bool


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End an occurrence that a crash cut off as `state`, and tell the owner."""

    state: OccurrenceState


@dataclass(frozen=True, slots=True)
class Abandon:
    """End an occurrence whose job file is gone as `state`."""

    state: OccurrenceState


@dataclass(frozen=True, slots=True)
class Settle:
    """The occurrence has its end: deliver the reminder if it is owed, and remove its file."""


Decision = (
    RunInForeground
    | WaitForQuietEnd
    | RunInBackground
    | DeliverPlainly
    | Skip
    | Miss
    | GiveUp
    | Abandon
    | Settle
)

PAUSED = "it was paused after the call had come, and what was sent is removed"
NO_SCREENING = (
    "without a language model nothing can judge the text that came with the call. "
    "`ollim-bot auth login` connects Claude; fixed lists, numbers and booleans need no check."
)

# A turn was removed from the inbox before it began: its reminder was delivered plainly.
WITHDRAWN = Skip(SkipReason.POLICY)


def decide(job: Job | None, given: Circumstances) -> Decision:
    """What the occurrence leads to now. `job` is None if its file is gone."""
    progress = given.progress
    if progress.has_ended:
        return Settle()
    if job is None:
        return Abandon(_interrupted_or(OccurrenceState.SKIPPED, progress))
    if not progress.may_retry:
        failed = OccurrenceState.FAILED
        return GiveUp(_interrupted_or(failed, progress) if progress.had_effect else failed)
    if given.is_queued:
        return RunInForeground()
    if (obstacle := _obstacle(job, given)) is not None:
        return obstacle
    may_wait = job.keeps_quiet and not (given.is_manual or progress.is_begun)
    if given.quiet_until is not None and may_wait:
        return WaitForQuietEnd(given.quiet_until)
    return _shortage(job, given) or _run(job, given)


def has_to_come(decision: Decision) -> bool:
    """Whether what must be delivered is delivered after that decision, by a run or plainly."""
    match decision:
        case Skip(reason):
            return not is_unwanted(reason, is_manual=False)
        case Miss() | Abandon():
            return False
    return True


def needs_ping_token(job: Job, *, is_manual: bool) -> bool:
    """Whether a run reserves a token of the ping budget before it starts."""
    return is_initiative(job) and not is_manual


def deliver_by(due: datetime | None, now: datetime) -> datetime:
    """When the program delivers what must be delivered and no run has delivered.

    A reminder that starts late leaves its run at least half of the time.
    """
    now = now.astimezone(UTC)
    return max(due or now, now - _PATIENCE / 2) + _PATIENCE


def run_priority(job: Job, due: datetime) -> tuple[int, float]:
    """The rank of a waiting background run: the lowest gets a slot first."""
    return job.rank, due.timestamp()


def _obstacle(job: Job, given: Circumstances) -> Skip | Miss | None:
    if given.is_skipped and not given.progress.is_begun:
        return Skip(SkipReason.POLICY)
    if given.is_superseded:
        return Skip(SkipReason.SUPERSEDED)
    if given.was_away and (missed := _missed(job, given)) is not None:
        return missed
    is_off = not (job.kind.has_moments or job.spec.enabled or given.is_manual)
    if is_off:
        return Skip(SkipReason.DISABLED, PAUSED)
    return None


def _shortage(job: Job, given: Circumstances) -> Skip | None:
    """What a run needs and does not have now."""
    if job.is_plain:
        return None
    if given.is_running and (isinstance(job, Routine) or given.is_manual):
        return Skip(SkipReason.OVERLAP)
    if given.reached_cost_cap is not None and not given.is_manual:
        return Skip(SkipReason.COST_CAP, f"{given.reached_cost_cap:.2f}")
    if not given.can_screen and job.brings_free_text:
        return Skip(SkipReason.SCREENING, NO_SCREENING)
    # What the job lacks to run; only in the background, it has tools of its own and a budget.
    is_background = job.spec.background
    wrong = [error for tool in job.spec.allowed_tools for error in problems(tool).errors]
    wrong += given.excess_tools
    if wrong and is_background:
        return Skip(SkipReason.INVALID_TOOLS, " ".join(wrong))
    if given.missing_skills:
        return Skip(SkipReason.MISSING_SKILL, given.missing_skills[0])
    needs_token = is_background and needs_ping_token(job, is_manual=given.is_manual)
    return Skip(SkipReason.BUDGET) if needs_token and not given.has_ping_token else None


def _missed(job: Job, given: Circumstances) -> Miss | None:
    is_judged = not (given.is_manual or given.has_waited or given.progress.is_begun)
    # A claimed reminder is delivered, no matter how late it is.
    is_claimed = given.progress.state is not None
    if not is_judged or given.due is None or not isinstance(job, Routine | Reminder):
        return None
    if is_claimed and not isinstance(job, Routine):
        return None
    rule = late_rule(job, given.due, given.now, given.zone)
    return None if rule is Late.RUN else Miss(is_told=rule is Late.TELL)


def _run(job: Job, given: Circumstances) -> RunInForeground | RunInBackground | DeliverPlainly:
    if job.is_plain:
        return DeliverPlainly()
    if not job.spec.background:
        return RunInForeground()
    attempts = given.progress.attempts
    if not given.has_just_failed or not attempts:
        return RunInBackground(attempts + 1)
    return RunInBackground(attempts + 1, _RETRY_PAUSES[min(attempts, len(_RETRY_PAUSES)) - 1])


def _interrupted_or(other: OccurrenceState, progress: Progress) -> OccurrenceState:
    can_follow = may_follow(progress.state, OccurrenceState.INTERRUPTED)
    return OccurrenceState.INTERRUPTED if can_follow else other
