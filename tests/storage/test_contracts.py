"""A value in a file, and repositories on disk and in memory, keep their promises."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from devtools.doubles.contracts import JobRepositoryContract
from tests.storage.data_directory import NOW, DataDirectory
from tests.stores import memory_stores

from ollim_bot.domain.jobs import Reminder
from ollim_bot.ports import JobRepository
from ollim_bot.store.file_store import FileStore
from ollim_bot.store.files import FileLock, OsDisk


class NumberCodec:
    def missing(self) -> int:
        return 0

    def decode(self, raw: bytes) -> tuple[int, tuple[str, ...]]:
        return int(raw), ()

    def encode(self, value: int) -> bytes:
        return str(value).encode()


class InDataDirectory:
    data: DataDirectory

    @pytest.fixture(autouse=True)
    def _in(self, data: DataDirectory) -> None:
        self.data = data


class TestFileStore(InDataDirectory):
    """The store holds a whole number and starts with 0."""

    def make(self) -> FileStore[int]:
        path = self.data.paths.state / "number"
        lock = FileLock(self.data.paths.locks / "number")
        return FileStore(path, NumberCodec(), lock, disk=OsDisk(), report=self.data.problems.append)

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
        with pytest.raises(ZeroDivisionError):
            store.transact(fail)
        assert store.read() == 3

    def test_steps_of_many_threads_follow_each_other(self) -> None:
        store = self.make()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: store.transact(lambda value: (value + 1, None)), range(40)))
        assert store.read() == 40


class TestMarkdownRepository(InDataDirectory, JobRepositoryContract):
    def make(self) -> JobRepository[Reminder]:
        return self.data.open().reminders


class TestMemoryRepository(JobRepositoryContract):
    def make(self) -> JobRepository[Reminder]:
        return memory_stores(NOW).reminders
