"""Reads what the model costs, for the command line and for the page."""

from __future__ import annotations

from datetime import datetime

from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.costs import CostReport, cost_report, job_name, month_start
from ollim_bot.kernel.values.occurrences import Occurrence


def costs_since(tx: Transaction, since: datetime, now: datetime) -> CostReport:
    """The sums since then and of this month, with the names of the jobs."""
    rows = tx.usage.since(min(since, month_start(now)))
    cap = tx.config.get().daily_cost_cap
    newest = {job_name(row.occurrence): row.occurrence for row in rows if row.occurrence}
    # Its newest run tells what a job is called: its own name may be gone with its file.
    titles = {name: tx.ledger.story(Occurrence.parse(one)).title for name, one in newest.items()}
    return cost_report(rows, since, now, cap, titles)
