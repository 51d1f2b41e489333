"""The usage rows: each is kept whole, and they are added up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tests.stores import memory_stores

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.usage import Price, UsageKind, UsageRow

NOW = datetime(2026, 11, 17, 12, tzinfo=ZoneInfo("Europe/Berlin"))
RUN = Occurrence.scheduled(JobKind.ROUTINE, "morning", NOW)


def spent(at: datetime, micros: int, price: Price = Price.LISTED) -> UsageRow:
    return UsageRow(at, UsageKind.RUN, "haiku \ud83d", price, micros, 7, "", RUN.id)


def test_rows_are_kept_whole_and_added_up_from_a_moment_on() -> None:
    state = memory_stores(NOW).state
    rows = [spent(NOW - timedelta(days=1), 5), spent(NOW, 10), spent(NOW, 3, Price.INCLUDED)]
    state.run(lambda tx: tx.usage.add(*rows))
    assert state.query(lambda tx: tx.usage.since(NOW)) == rows[1:]
    assert state.query(lambda tx: tx.usage.of_occurrence(RUN.id)) == rows
    assert state.query(lambda tx: tx.usage.cost_since(NOW)) == 13
    assert state.query(lambda tx: tx.usage.page(1, 1)) == (rows[1:2], 2)
    assert state.query(lambda tx: tx.usage.page(3, 1)) == ([], 3)


def test_it_is_known_when_an_amount_was_reached() -> None:
    state = memory_stores(NOW).state
    later = NOW + timedelta(hours=1)
    state.run(lambda tx: tx.usage.add(spent(NOW, 10), spent(later, 3)))
    assert state.query(lambda tx: tx.usage.reached_at(NOW, 10)) == NOW.astimezone(UTC)
    assert state.query(lambda tx: tx.usage.reached_at(NOW, 11)) == later.astimezone(UTC)
    assert state.query(lambda tx: tx.usage.reached_at(NOW, 14)) is None
