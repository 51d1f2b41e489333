"""Reads the lists of runs, and what came of a day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from ollim_bot.domain.costs import Amount
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.run_history import RunStory
from ollim_bot.domain.run_list import RunFilter, RunList, Show, usual_cost
from ollim_bot.domain.run_pages import moment_of, run_stories
from ollim_bot.store.day_receipts import TodayReceipts, rows_about_day
from ollim_bot.store.run_reports import CHUNK, FIRST, stories_of

if TYPE_CHECKING:
    from ollim_bot.domain.usage import UsageRow
    from ollim_bot.store.transaction import Transaction

# A list looks through so many runs for each that it may have.
_LOOKED_AT = 5
_USUAL_DAYS = timedelta(days=30)


def run_list(
    tx: Transaction,
    wanted: RunFilter,
    most: int,
    now: datetime,
    watched_until: datetime | None,
    today: TodayReceipts | None = None,
) -> RunList:
    """At most `most` runs that fit, with the receipt of the day, or of today."""
    if wanted.day is None:
        listed = _newest_runs(tx, wanted, most, now, ())
        return replace(listed, receipt=(today or TodayReceipts()).read(tx, now, watched_until))
    about = rows_about_day(tx, wanted.day, now)
    listed = _newest_runs(tx, wanted, most, now, about.rows)
    return replace(listed, receipt=about.receipt(now, watched_until))


def _newest_runs(
    tx: Transaction, wanted: RunFilter, most: int, now: datetime, of_day: Sequence[LedgerRow]
) -> RunList:
    """It looks back through a bounded number of others; `of_day` are the rows about the day."""
    usual = _usual(tx, now) if wanted.show is Show.COSTLY else 0
    found: list[RunStory] = []
    seen, back_to = 0, None
    for ids in _chunks(tx, wanted, now, of_day):
        stories = stories_of(tx, ids)
        found += [each for each in stories if wanted.fits(each, now, usual)]
        seen += len(ids)
        back_to = min((moment_of(each) for each in stories), default=back_to)
        if len(found) > most or seen >= _LOOKED_AT * most:
            break
    else:
        back_to = None
    found.sort(key=lambda each: each.fired.timestamp(), reverse=True)
    has_more = len(found) > most or back_to is not None
    return RunList(now, wanted, found[:most], has_more, back_to, usual)


def _chunks(
    tx: Transaction, wanted: RunFilter, now: datetime, of_day: Sequence[LedgerRow]
) -> Iterator[list[str]]:
    """The ids of the runs that may fit, the newest first."""
    if wanted.day is not None:
        stories = run_stories(of_day)
        yield [each.id for each in stories if RunFilter(day=wanted.day).fits(each, now)]
        return
    ledger, before = tx.ledger, FIRST
    newest = partial(ledger.newest_of_job, wanted.job) if wanted.job else ledger.newest_ids
    while ids := newest(before, CHUNK):
        before = ids[-1][1]
        yield [each for each, _ in ids]


def _usual(tx: Transaction, now: datetime) -> int:
    by_run: dict[str, list[UsageRow]] = {}
    for row in tx.usage.since(now - _USUAL_DAYS):
        if row.occurrence:
            by_run.setdefault(row.occurrence, []).append(row)
    return usual_cost(Amount.of(each) for each in by_run.values())
