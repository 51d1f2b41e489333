"""The promises of every file store and shelf, as test classes.

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
from datetime import UTC, datetime

from ollim_bot.domain.jobs import JobSpec, Reminder
from ollim_bot.errors import DuplicateId, NotFound
from ollim_bot.ports import Shelf, Store

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
