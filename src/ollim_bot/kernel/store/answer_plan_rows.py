"""Plans the next moment of a routine that comes again after it is done.

Such a routine has at most one plan: the row `planned` of its next moment, which an answer writes in
its own step. The plan follows the file, the pause and the clock of its routine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TypeVar

from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.answer_plans import (
    JUST_PASSED,
    AnswerPlan,
    after_done_of,
    day_before,
    with_plan,
)
from ollim_bot.kernel.values.due_items import DueItem, item_key
from ollim_bot.kernel.values.jobs import Job, Routine
from ollim_bot.kernel.values.occurrences import (
    Answer,
    LedgerRow,
    Occurrence,
    OccurrenceState,
    SkipReason,
)
from ollim_bot.kernel.values.repeats import AfterDone
from ollim_bot.kernel.values.run_history import RunStory, is_withdrawn

J = TypeVar("J", bound=Job)

# The answers after which a routine comes again.
SETTLING = frozenset({Answer.DONE, Answer.TAKEN, Answer.NOT_TAKEN, Answer.LET_GO})

_TAKEN_BACK = "the answer was taken back"
_DONE_AGAIN = "it was done again before"
_OFF = "it was paused or removed"
_CHANGED = "its rhythm or its clock was changed"


def open_plans(tx: Transaction) -> dict[str, AnswerPlan]:
    """The plans whose moments have not come, by the ids of the routines."""
    planned = (
        story
        for story in tx.ledger.open_history().unfinished
        if story.state is OccurrenceState.PLANNED
    )
    found = [plan for story in planned if (plan := AnswerPlan.read(story)) is not None]
    return {plan.occurrence.job_id: plan for plan in found}


def planned_days(tx: Transaction) -> Mapping[str, date]:
    """The days of the answers that have set a next moment, by the ids of the routines."""
    return {name: plan.day for name, plan in open_plans(tx).items()}


def with_known_plan(tx: Transaction, job: J) -> J:
    """The job with its next moment, if an answer has set one."""
    return with_plan(job, planned_days(tx).get(job.spec.id))


def plan_following(tx: Transaction, item: DueItem) -> None:
    """Plan the next moment of the routine whose item was settled, if it follows its answers.

    The answer of a reminder that a snooze made is that of the routine.
    """
    if item.answer not in SETTLING:
        return
    one = Occurrence.parse(item.occurrence)
    while one.kind is not JobKind.ROUTINE:
        put_off = tx.due_items.put_off_to(one.job_id)
        if put_off is None:
            return
        one = Occurrence.parse(put_off.occurrence)
    known = after_done_of(tx.ledger.armed().jobs.get(JobKey(one.kind, one.job_id)))
    if known is None:
        return
    rhythm, zone = known
    if rhythm.first(zone) > tx.now:
        return
    before = open_plans(tx).get(one.job_id)
    if before is not None:
        _end(tx, before, SkipReason.SUPERSEDED, _DONE_AGAIN)
    day, instead = tx.now.astimezone(zone).date(), None if before is None else before.day
    plan = AnswerPlan(one, item.title, day, item.occurrence, instead)
    _plan(tx, plan, rhythm, zone)


def withdraw_plan(tx: Transaction, item: DueItem) -> None:
    """Take back the plan that the answer of the item has made, with what that had replaced."""
    for plan in open_plans(tx).values():
        if plan.after != item.occurrence:
            continue
        _end(tx, plan, SkipReason.POLICY, _TAKEN_BACK)
        key = JobKey(plan.occurrence.kind, plan.occurrence.job_id)
        known = after_done_of(tx.ledger.armed().jobs.get(key))
        if plan.instead is not None and known is not None:
            rhythm, zone = known
            day = day_before(rhythm, plan.instead, tx.now, zone)
            _plan(tx, replace(plan, day=day, after="", instead=None), rhythm, zone)


def follow_plans(
    tx: Transaction, jobs: Iterable[Job], zone: tzinfo, since: datetime, *, has_moved: bool = False
) -> Mapping[str, date]:
    """Let each plan follow its routine as it is now, and return the days of all plans.

    `since` is the moment until which all that was due is claimed. A plan that would be in the past
    comes at its next time of day; after a move of the clock (`has_moved`) it has been jumped over.
    """
    routines = {
        job.spec.id: (job, job.rhythm)
        for job in jobs
        if isinstance(job, Routine) and isinstance(job.rhythm, AfterDone) and job.spec.enabled
    }
    plans = open_plans(tx)
    for name, plan in plans.items():
        if name not in routines:
            _end(tx, plan, SkipReason.DISABLED, _OFF)
            continue
        job, rhythm = routines[name]
        own, served = job.spec.zone(zone), since.astimezone(UTC)
        if has_moved and plan.at <= served:
            continue
        is_left = plan.at <= served - JUST_PASSED
        if rhythm.after_day(plan.day, own) == plan.at and not is_left:
            continue
        _end(tx, plan, SkipReason.SUPERSEDED, _CHANGED)
        if rhythm.first(own) <= since:
            day = plan.day if has_moved else day_before(rhythm, plan.day, tx.now, own)
            _plan(tx, replace(plan, day=day), rhythm, own)
    for name, (job, rhythm) in routines.items():
        own = job.spec.zone(zone)
        new = None if name in plans else _day_to_plan(tx, job, rhythm, own, since)
        if new is not None:
            any_moment = Occurrence.scheduled(JobKind.ROUTINE, name, tx.now)
            _plan(tx, AnswerPlan(any_moment, job.spec.title, new), rhythm, own)
    return planned_days(tx)


def _day_to_plan(
    tx: Transaction, job: Routine, rhythm: AfterDone, zone: tzinfo, since: datetime
) -> date | None:
    """The day of a plan for a routine that has none; None if it waits for an answer.

    The first moment still comes if it has just passed without a claim, such as during a start.
    """
    first, served = rhythm.first(zone).astimezone(UTC), since.astimezone(UTC)
    if first > served:
        return None
    story = _last_story(tx, job)
    if story is None and first > served - JUST_PASSED:
        return rhythm.start - timedelta(rhythm.days)
    last = rhythm.start if story is None else _day_to_follow(tx, story, zone)
    return None if last is None else day_before(rhythm, last, tx.now, zone)


def _day_to_follow(tx: Transaction, story: RunStory, zone: tzinfo) -> date | None:
    """The day from which a routine goes on after its newest moment; None if it waits.

    A moment that came to its end without asking counts as let go.
    """
    plan, end = AnswerPlan.read(story), story.end
    if plan is not None and is_withdrawn(story.rows):
        return plan.day
    if end is None or story.is_owed:
        return None
    item = tx.due_items.get(item_key(story.occurrence.id))
    if item is None:
        return end.ts.astimezone(zone).date()
    if item.answer in SETTLING and item.answered_at is not None:
        return item.answered_at.astimezone(zone).date()
    return None


def _last_story(tx: Transaction, job: Routine) -> RunStory | None:
    """The newest moment that came, or whose plan ended because of a pause."""
    for one in tx.ledger.moments_of(job.kind, job.spec.id):
        story = tx.ledger.story(one)
        reason = None if story.end is None else story.end.facts.get("reason")
        if not is_withdrawn(story.rows) or reason == SkipReason.DISABLED:
            return story
    return None


def _plan(tx: Transaction, plan: AnswerPlan, rhythm: AfterDone, zone: tzinfo) -> None:
    """Write the plan; a moment that has come by a clock that was set back is left out."""
    while True:
        at = rhythm.after_day(plan.day, zone)
        one = Occurrence.scheduled(JobKind.ROUTINE, plan.occurrence.job_id, at)
        if not tx.ledger.has(one) or is_withdrawn(tx.ledger.story(one).rows):
            tx.ledger.append(replace(plan, occurrence=one).row(tx.now))
            return
        plan = replace(plan, day=plan.day + timedelta(1))


def _end(tx: Transaction, plan: AnswerPlan, reason: SkipReason, why: str) -> None:
    facts = {"job": plan.title, "reason": reason.value, "why": why}
    tx.ledger.append(LedgerRow(tx.now, OccurrenceState.SKIPPED.value, plan.occurrence, facts))
