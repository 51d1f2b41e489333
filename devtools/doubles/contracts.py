"""The promises of every repository, as a test class.

Derive a class, make the adapter, and let a test runner collect it:

    class TestMemoryRepository(JobRepositoryContract):
        def make(self) -> JobRepository[Reminder]:
            return MemoryJobRepository(REMINDERS)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from ollim_bot.kernel.base.errors import BadJob, ChangedMeanwhile, DuplicateId, NotFound
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.ports import JobRepository

START = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)


@contextmanager
def raising(expected: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except expected:
        return
    raise AssertionError(f"{expected.__name__} was not raised")


class JobRepositoryContract(ABC):
    @abstractmethod
    def make(self) -> JobRepository[Reminder]: ...

    def reminder(self, job_id: str = "a1b2c3d4", message: str = "drink water") -> Reminder:
        return Reminder(JobSpec(id=job_id, message=message, background=True), START)

    def test_a_new_repository_is_empty(self) -> None:
        assert list(self.make().all()) == []
        with raising(NotFound):
            self.make().get("a1b2c3d4")

    def test_what_is_added_is_found(self) -> None:
        repository = self.make()
        path = repository.add(self.reminder())
        assert repository.get("a1b2c3d4").item == self.reminder()
        assert [stored.path for stored in repository.all()] == [path]

    def test_an_id_is_taken_once(self) -> None:
        repository = self.make()
        repository.add(self.reminder())
        with raising(DuplicateId):
            repository.add(self.reminder(message="another"))
        assert len(repository.all()) == 1

    def test_many_jobs_of_one_text_stand_side_by_side(self) -> None:
        repository = self.make()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: repository.add(self.reminder(f"id-{n}")), range(40)))
        assert len({stored.path for stored in repository.all()}) == 40

    def test_an_amended_job_is_changed_in_what_was_named_only(self) -> None:
        repository = self.make()
        repository.add(self.reminder())
        changed = repository.amend("a1b2c3d4", {"enabled": False}, "drink tea")
        expected = self.reminder(message="drink tea")
        assert changed == replace(expected, spec=replace(expected.spec, enabled=False))
        assert repository.get("a1b2c3d4").item == changed
        assert repository.amend("a1b2c3d4", {"enabled": None}) == expected

    def test_a_file_is_rewritten_as_long_as_it_is_the_one_that_was_read(self) -> None:
        repository = self.make()
        repository.add(self.reminder())
        read = repository.text_of("a1b2c3d4")
        text = read.text.replace("drink water", "drink tea")
        assert repository.rewrite("a1b2c3d4", text, read.version).spec.message == "drink tea"
        assert repository.text_of("a1b2c3d4").text == text
        with raising(ChangedMeanwhile):
            repository.rewrite("a1b2c3d4", read.text, read.version)
        with raising(BadJob):
            repository.rewrite("a1b2c3d4", "no fields", repository.text_of("a1b2c3d4").version)
        assert repository.text_of("a1b2c3d4").text == text

    def test_a_removed_job_is_gone_and_the_others_stay(self) -> None:
        repository = self.make()
        repository.add(self.reminder())
        other = repository.add(self.reminder("other"))
        repository.remove("a1b2c3d4")
        assert [stored.path for stored in repository.all()] == [other]
        for vain in (repository.get, repository.remove):
            with raising(NotFound):
                vain("a1b2c3d4")
