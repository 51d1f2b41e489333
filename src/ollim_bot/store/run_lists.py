"""Reads the lists of runs, and what came of a day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from ollim_bot.domain.costs import Amount
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.receipts import DayReading, Receipt, around, counted_since, receipt_of
from ollim_bot.domain.run_history import History, RunStory
from ollim_bot.domain.run_list import RunFilter, RunList, Show, usual_cost
from ollim_bot.domain.run_pages import moment_of, run_stories
from ollim_bot.store.run_reports import CHUNK, FIRST, stories_of

if TYPE_CHECKING:
    from ollim_bot.domain.usage import UsageRow
    from ollim_bot.store.transaction import Transaction

# A list looks through so many runs for each that it may have.
_LOOKED_AT = 5
_USUAL_DAYS = timedelta(days=30)
# How long after a day, and after the bot was there again, its runs have their ends.
_SETTLED = timedelta(days=2)


class TodayReceipts:
    """The receipt of today. Each look reads only the rows since the last one.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._reading: DayReading | None = None
        self._made_for: tuple[date, tzinfo] | None = None
        self._read_at = datetime.min.replace(tzinfo=UTC)
        self._place = 0

    def read(self, tx: Transaction, now: datetime, watched_until: datetime | None) -> Receipt:
        """The receipt of the day of `now`; the bot ran until `watched_until`."""
        day, zone = now.date(), now.tzinfo or UTC
        with self._lock:
            # What a failure has left half read is read anew.
            reading, self._reading = self._reading, None
            if reading is None or self._made_for != (day, zone) or now < self._read_at:
                reading = DayReading(day, zone, is_lean=True)
                self._place = tx.ledger.newest_place()
                rows = tx.ledger.rows_about(counted_since(day, now), due=around(day, zone))
                stories = History.of(rows).stories
            else:
                rows, self._place = tx.ledger.page(self._place, FIRST)
                ids = dict.fromkeys(each.occurrence.id for each in rows if each.occurrence)
                stories = History.of(tx.ledger.rows_of(ids)).stories
            reading.note(rows, stories.values())
            self._reading, self._made_for, self._read_at = reading, (day, zone), now
            return reading.receipt(now, watched_until)


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
    about = _rows_about(tx, wanted.day, now)
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


def receipt_for(
    tx: Transaction, day: date, now: datetime, watched_until: datetime | None
) -> Receipt:
    """The receipt of the day, read from the rows about it; the bot ran until `watched_until`."""
    return _rows_about(tx, day, now, only_due=True).receipt(now, watched_until)


class _DayRows(NamedTuple):
    """The rows about a day; what was due on it has its end before `until`."""

    day: date
    until: datetime
    rows: Sequence[LedgerRow]

    def receipt(self, now: datetime, watched_until: datetime | None) -> Receipt:
        horizon = None if watched_until is None else min(watched_until, self.until)
        return receipt_of(self.rows, self.day, now, horizon)


def _rows_about(tx: Transaction, day: date, now: datetime, *, only_due: bool = False) -> _DayRows:
    """A bot that was away ends what was due on the day when it is back."""
    end = counted_since(day + timedelta(days=1), now) + _SETTLED
    until = max(end, tx.ledger.first_moment_after(end) or end) + _SETTLED
    due = around(day, now.tzinfo or UTC) if only_due else None
    return _DayRows(day, until, tx.ledger.rows_about(counted_since(day, now), until, due))


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
