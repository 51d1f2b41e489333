"""Reads what the model costs, for the command line and for the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from ollim_bot.domain.costs import CostReport, cost_report, job_name, month_start
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.usage import UsageRow
from ollim_bot.store.transaction import Transaction


def costs_since(tx: Transaction, since: datetime, now: datetime) -> CostReport:
    """The sums since then and of this month, with the names of the jobs."""
    rows = tx.usage.since(min(since, month_start(now)))
    cap = tx.config.get().daily_cost_cap
    return cost_report(rows, since, now, cap, dict(_titles(tx, rows)))


def _titles(tx: Transaction, rows: Iterable[UsageRow]) -> Iterator[tuple[str, str]]:
    """What each job is called in its newest run; its own name may be gone with its file."""
    newest = {job_name(row.occurrence): row.occurrence for row in rows if row.occurrence}
    for name, occurrence in newest.items():
        yield name, tx.ledger.story(Occurrence.parse(occurrence)).title
