"""Reads what came of what was due on a day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot.kernel.values.receipts import DayReading, Receipt, around, counted_since, receipt_of
from ollim_bot.kernel.values.run_history import History

if TYPE_CHECKING:
    from ollim_bot.kernel.store.transaction import Transaction

# How long after a day, and after the bot was there again, its runs have their ends.
_SETTLED = timedelta(days=2)
_ALL = 2**62


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
                rows, self._place = tx.ledger.page(self._place, _ALL)
                ids = dict.fromkeys(each.occurrence.id for each in rows if each.occurrence)
                stories = History.of(tx.ledger.rows_of(ids)).stories
            reading.note(rows, stories.values())
            self._reading, self._made_for, self._read_at = reading, (day, zone), now
            return reading.receipt(now, watched_until)


def receipt_for(
    tx: Transaction, day: date, now: datetime, watched_until: datetime | None
) -> Receipt:
    """The receipt of the day, read from the rows about it; the bot ran until `watched_until`."""
    return rows_about_day(tx, day, now, only_due=True).receipt(now, watched_until)


class DayRows(NamedTuple):
    """The rows about a day; what was due on it has its end before `until`."""

    day: date
    until: datetime
    rows: Sequence[LedgerRow]

    def receipt(self, now: datetime, watched_until: datetime | None) -> Receipt:
        horizon = None if watched_until is None else min(watched_until, self.until)
        return receipt_of(self.rows, self.day, now, horizon)


def rows_about_day(tx: Transaction, day: date, now: datetime, *, only_due: bool = False) -> DayRows:
    """A bot that was away ends what was due on the day when it is back."""
    end = counted_since(day + timedelta(days=1), now) + _SETTLED
    until = max(end, tx.ledger.first_moment_after(end) or end) + _SETTLED
    due = around(day, now.tzinfo or UTC) if only_due else None
    return DayRows(day, until, tx.ledger.rows_about(counted_since(day, now), until, due))
