"""What the ledger says of the missed moments that are not run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from ollim_bot.domain.catch_up import CatchUp
from ollim_bot.domain.occurrences import LedgerRow, OccurrenceState, SkipReason
from ollim_bot.domain.run_history import claiming_row
from ollim_bot.domain.schedule import ScheduledJob, occurrence_at
from ollim_bot.scheduling import texts


def ended_rows(plan: CatchUp, now: datetime) -> list[LedgerRow]:
    """Those that end at once, from their first row to their last."""
    rows: list[LedgerRow] = []
    for missed in (*plan.tell, *plan.skip):
        rows += _ended(missed.job, missed.newest, now, OccurrenceState.MISSED, {})
    reason = {"reason": SkipReason.SUPERSEDED.value}
    for missed in (*plan.run, *plan.tell, *plan.skip):
        for moment in missed.older:
            rows += _ended(missed.job, moment, now, OccurrenceState.SKIPPED, reason)
    return rows


def _ended(
    job: ScheduledJob,
    moment: datetime,
    now: datetime,
    state: OccurrenceState,
    facts: Mapping[str, object],
) -> list[LedgerRow]:
    occurrence = occurrence_at(job, moment)
    named = {"job": job.spec.title, **texts.NOT_RUN}
    end = LedgerRow(now, state.value, occurrence, {**named, **facts})
    return [claiming_row(occurrence, now), end]
