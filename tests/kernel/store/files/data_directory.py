"""A temporary data directory whose stores are opened as the program opens them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from devtools.doubles.immediate_store import ImmediateStore
from devtools.doubles.journal import RecordingJournal
from tests.left_behind import at_end_of_test
from tests.stores import Stores

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.file_changes import FileChanges
from ollim_bot.kernel.changes.job_files import open_repositories
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.file_store import Codec, FileStore, StoreProblem
from ollim_bot.kernel.store.files import FileLock, OsDisk
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.ports import Disk, JobRepositories

R = TypeVar("R")
T = TypeVar("T")

NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)


class QuickDisk(OsDisk):
    """Real files without syncs, which take time and matter only for a power cut."""

    def append(self, path: Path, data: bytes, mode: int, *, sync: bool) -> None:  # noqa: ARG002
        super().append(path, data, mode, sync=False)

    def sync(self, path: Path) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass


class DataDirectory:
    """A prepared data directory. Every `open` sees it as a new process would."""

    def __init__(self, root: Path) -> None:
        self.paths = DataPaths(root)
        self.problems: list[StoreProblem] = []
        self.journal = RecordingJournal()
        prepare_data_directory(self.paths)

    def open(self, disk: Disk | None = None, now: datetime = NOW) -> Stores:
        """Open the stores as the bot does: the database is created or migrated."""
        database = open_database(
            self.paths, lambda: now, is_holder=True, report=self.problems.append
        )
        at_end_of_test(database.close)
        store = ImmediateStore(database)
        changes = FileChanges(self.paths, store, self.journal, lambda: now, disk)
        repositories = open_repositories(self.paths, self.journal, disk, changes=changes)
        return Stores(store, repositories)

    def repositories(self, disk: Disk | None = None) -> JobRepositories:
        return open_repositories(self.paths, self.journal, disk)

    def file_store(self, path: Path, codec: Codec[T], disk: Disk | None = None) -> FileStore[T]:
        """A store for one value in one file, opened as by a new process."""
        lock = FileLock(self.paths.lock_of(path))
        return FileStore(path, codec, lock, disk=disk or OsDisk(), report=self.problems.append)

    def run(self, step: Callable[[Transaction], R], *, is_holder: bool = False) -> R:
        """Run a step on the database, by default as a process other than the bot."""
        database = open_database(
            self.paths, lambda: NOW, is_holder=is_holder, report=self.problems.append
        )
        try:
            return database.run(step)
        finally:
            database.close()
