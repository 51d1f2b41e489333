"""The stores on disk and their doubles in memory keep the same promises."""

from __future__ import annotations

import pytest
from tests.storage.places import NOW, DataDirectory
from tests.stores import memory_stores

from ollim_bot.domain.jobs import Reminder
from ollim_bot.ports import Shelf, Store
from ollim_bot.store.file_store import FileStore
from ollim_bot.store.files import FileLock, OsDisk
from ollim_bot.testing.contracts import ShelfContract, StoreContract
from ollim_bot.testing.memory import MemoryStore


class NumberCodec:
    def missing(self) -> int:
        return 0

    def decode(self, raw: bytes) -> tuple[int, tuple[str, ...]]:
        return int(raw), ()

    def encode(self, value: int) -> bytes:
        return str(value).encode()


class OnDisk:
    data: DataDirectory

    @pytest.fixture(autouse=True)
    def _in(self, data: DataDirectory) -> None:
        self.data = data


class TestFileStore(OnDisk, StoreContract):
    def make(self) -> Store[int]:
        path = self.data.paths.state / "number"
        lock = FileLock(self.data.paths.locks / "number")
        return FileStore(path, NumberCodec(), lock, disk=OsDisk(), report=self.data.problems.append)


class TestMemoryStore(StoreContract):
    def make(self) -> Store[int]:
        return MemoryStore(0)


class TestMarkdownShelf(OnDisk, ShelfContract):
    def make(self) -> Shelf[Reminder]:
        return self.data.open().reminders


class TestMemoryShelf(ShelfContract):
    def make(self) -> Shelf[Reminder]:
        return memory_stores(NOW).reminders
