"""The ledger queries of each start and claim cost the same after years."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache

import pytest
from devtools.doubles.repeating_store import RepeatingStore
from tests.kernel.store.files.data_directory import NOW

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.run_history import claiming_row

DAY = timedelta(days=1)


def one(number: int) -> Occurrence:
    return Occurrence.scheduled(JobKind.ROUTINE, f"r{number % 7}", NOW - number * DAY)


def with_years(length: int) -> RepeatingStore:
    """All occurrences have ended, except for the oldest three."""
    store = RepeatingStore(lambda: NOW, is_repeating=False)

    def step(tx: Transaction) -> None:
        for number in range(length, 0, -1):
            ends = () if number > length - 3 else ("running", "done")
            tx.ledger.append(claiming_row(one(number), moment(number)))
            tx.ledger.append(*(LedgerRow(moment(number), state, one(number)) for state in ends))

    store.run(step)
    return store


# For steps that add at most one row.
shared_years = cache(with_years)


def moment(number: int) -> datetime:
    return NOW - number * DAY


def work(store: RepeatingStore, step: Callable[[Transaction], object]) -> int:
    counted: list[int] = []
    store._connection.set_progress_handler(lambda: counted.append(1), 10)
    store.run(step)
    store._connection.set_progress_handler(None, 0)
    return len(counted)


@pytest.mark.parametrize(
    "step",
    [
        lambda tx: tx.ledger.claim(one(0), NOW),
        lambda tx: len(tx.ledger.open_history().stories),
        lambda tx: tx.ledger.checkpoint(NOW, NOW),
        lambda tx: len(tx.ledger.armed().jobs),
        lambda tx: len(tx.ledger.story(one(5)).rows),
    ],
    ids=["claim", "unfinished", "checkpoint", "armed", "story"],
)
def test_the_cost_does_not_grow_with_the_history(step: Callable[[Transaction], object]) -> None:
    short, long = shared_years(300), shared_years(1000)
    assert work(long, step) <= 1.3 * work(short, step) + 5


def test_years_do_not_hide_what_is_unfinished() -> None:
    open_history = with_years(1000).query(lambda tx: tx.ledger.open_history())
    assert set(open_history.stories) == {one(number) for number in (998, 999, 1000)}
