"""The promises of every store, log and shelf, as test classes.

Derive a class, make the adapter, and let a test runner collect it:

    class TestMemoryStore(StoreContract):
        def make(self) -> Store[int]:
            return MemoryStore(0)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ollim_bot.domain.jobs import JobKind, JobSpec, Reminder
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.errors import DuplicateId, NotFound
from ollim_bot.ports import Log, Shelf, Store
from ollim_bot.stores import Stores

START = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)


@contextmanager
def raising(expected: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except expected:
        return
    raise AssertionError(f"{expected.__name__} was not raised")


def _in_eight_threads(work: Callable[[int], object]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(40)))


class StoreContract(ABC):
    """The store holds a whole number and starts with 0."""

    @abstractmethod
    def make(self) -> Store[int]: ...

    def test_a_new_store_holds_the_value_of_a_missing_file(self) -> None:
        assert self.make().read() == 0

    def test_a_step_replaces_the_value_and_gives_its_result(self) -> None:
        store = self.make()
        assert store.transact(lambda value: (value + 5, "result")) == "result"
        assert store.read() == 5

    def test_a_step_that_raises_changes_nothing(self) -> None:
        store = self.make()

        def fail(_: int) -> tuple[int, None]:
            raise ZeroDivisionError

        store.transact(lambda _: (3, None))
        with raising(ZeroDivisionError):
            store.transact(fail)
        assert store.read() == 3

    def test_steps_of_many_threads_follow_each_other(self) -> None:
        store = self.make()
        _in_eight_threads(lambda _: store.transact(lambda value: (value + 1, None)))
        assert store.read() == 40


class LogContract(ABC):
    @abstractmethod
    def make(self) -> Log[LedgerRow]: ...

    def row(self, number: int, *, days: int = 0) -> LedgerRow:
        return LedgerRow(START + timedelta(days=days), "noted", facts={"number": number})

    def numbers(self, log: Log[LedgerRow]) -> list[object]:
        return [row.facts["number"] for row in log.read().entries]

    def test_a_new_log_is_empty(self) -> None:
        assert list(self.make().read().entries) == []

    def test_entries_come_back_in_order_and_whole(self) -> None:
        log = self.make()
        log.append(self.row(1))
        log.append(self.row(2), self.row(3))
        log.append()
        assert list(log.read().entries) == [self.row(1), self.row(2), self.row(3)]
        assert log.read().skipped == 0

    def test_entries_from_before_a_moment_are_left_out(self) -> None:
        log = self.make()
        log.append(self.row(1))
        log.append(self.row(2, days=40))
        log.append(self.row(3, days=80))
        assert len(log.read(START + timedelta(days=40)).entries) == 2
        assert len(log.read(START).entries) == 3

    def test_the_tail_is_the_newest_entries_in_their_order(self) -> None:
        log = self.make()
        assert list(log.tail(5).entries) == []
        rows = [self.row(number, days=20 * number) for number in range(6)]
        for row in rows:
            log.append(row)
        assert list(log.tail(2).entries) == rows[-2:]
        assert list(log.tail(6).entries) == list(log.tail(100).entries) == rows
        assert list(log.tail(0).entries) == []

    def test_compacting_keeps_what_it_is_told_to_keep(self) -> None:
        log = self.make()
        log.append(*(self.row(number) for number in range(4)))
        log.compact(lambda rows: [row for row in rows if row.facts["number"] != 2])
        log.append(self.row(9))
        assert self.numbers(log) == [0, 1, 3, 9]

    def test_appends_of_many_threads_are_all_kept_and_stay_together(self) -> None:
        log = self.make()
        _in_eight_threads(lambda n: log.append(self.row(2 * n), self.row(2 * n + 1)))
        found = [int(str(number)) for number in self.numbers(log)]
        assert sorted(found) == list(range(80))
        assert all(found[i] + 1 == found[i + 1] for i in range(0, 80, 2))


class ClaimsContract(ABC):
    """`claims` and `ledger` of the stores work on the same rows."""

    @abstractmethod
    def make(self) -> Stores: ...

    def occurrence(self, number: int) -> Occurrence:
        return Occurrence.scheduled(JobKind.REMINDER, f"r{number}", START)

    def test_an_occurrence_is_claimed_once_and_its_facts_are_kept(self) -> None:
        stores, one, other = self.make(), self.occurrence(1), self.occurrence(2)
        assert stores.claims.claim(one, START, {"late": True})
        assert not stores.claims.claim(one, START + timedelta(hours=1))
        assert stores.claims.claim(other, START)
        assert list(stores.ledger.read().entries) == [
            LedgerRow(START, "due", one, {"late": True}),
            LedgerRow(START, "due", other),
        ]

    def test_any_row_of_an_occurrence_stands_in_the_way(self) -> None:
        stores = self.make()
        stores.ledger.append(LedgerRow(START, "running", self.occurrence(1)))
        assert not stores.claims.claim(self.occurrence(1), START)

    def test_many_are_claimed_in_one_go_with_all_their_rows(self) -> None:
        stores, some = self.make(), [self.occurrence(number) for number in (1, 2, 3)]
        stores.claims.claim(some[0], START)
        rows = [LedgerRow(START, state, one) for one in some for state in ("due", "skipped")]
        assert stores.claims.claim_all(rows) == set(some[1:])
        assert list(stores.ledger.read().entries)[1:] == rows[2:]
        assert stores.claims.claim_all([]) == set()

    def test_what_has_not_come_yet_cannot_be_claimed(self) -> None:
        stores = self.make()
        with raising(ValueError):
            stores.claims.claim(self.occurrence(1), START - timedelta(seconds=1))
        assert list(stores.ledger.read().entries) == []

    def test_threads_that_race_get_each_occurrence_once(self) -> None:
        stores, won = self.make(), list[bool]()
        _in_eight_threads(lambda n: won.append(stores.claims.claim(self.occurrence(n // 8), START)))
        assert (sum(won), len(stores.ledger.read().entries)) == (5, 5)


class ShelfContract(ABC):
    @abstractmethod
    def make(self) -> Shelf[Reminder]: ...

    def reminder(self, job_id: str = "a1b2c3d4", message: str = "drink water") -> Reminder:
        return Reminder(JobSpec(id=job_id, message=message, background=True), START)

    def test_a_new_shelf_is_empty(self) -> None:
        assert list(self.make().all()) == []
        with raising(NotFound):
            self.make().get("a1b2c3d4")

    def test_what_is_added_is_found(self) -> None:
        shelf = self.make()
        path = shelf.add(self.reminder())
        assert shelf.get("a1b2c3d4").item == self.reminder()
        assert [shelved.path for shelved in shelf.all()] == [path]

    def test_an_id_is_taken_once(self) -> None:
        shelf = self.make()
        shelf.add(self.reminder())
        with raising(DuplicateId):
            shelf.add(self.reminder(message="another"))
        assert len(shelf.all()) == 1

    def test_many_jobs_of_one_text_stand_side_by_side(self) -> None:
        shelf = self.make()
        _in_eight_threads(lambda n: shelf.add(self.reminder(f"id-{n}")))
        assert len({shelved.path for shelved in shelf.all()}) == 40

    def test_an_amended_job_is_changed_in_what_was_named_only(self) -> None:
        shelf = self.make()
        shelf.add(self.reminder())
        changed = shelf.amend("a1b2c3d4", {"enabled": False}, "drink tea")
        expected = self.reminder(message="drink tea")
        assert changed == replace(expected, spec=replace(expected.spec, enabled=False))
        assert shelf.get("a1b2c3d4").item == changed
        assert shelf.amend("a1b2c3d4", {"enabled": None}) == expected

    def test_a_removed_job_is_gone_and_the_others_stay(self) -> None:
        shelf = self.make()
        shelf.add(self.reminder())
        other = shelf.add(self.reminder("other"))
        shelf.remove("a1b2c3d4")
        assert [shelved.path for shelved in shelf.all()] == [other]
        for vain in (shelf.get, shelf.remove):
            with raising(NotFound):
                vain("a1b2c3d4")
