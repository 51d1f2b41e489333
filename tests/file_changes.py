"""The changes of files, on the database of a data directory, as a process of its own opens it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.file_changes import FileChanges
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.questions import DATABASE
from ollim_bot.kernel.store.transaction import Step
from ollim_bot.kernel.values.ports import Disk, Journal

R = TypeVar("R")

NOW = datetime(2026, 2, 24, 9, tzinfo=UTC)


class RowsBeside:
    """Opens the database for each step; `refusal` is raised instead, if there is one."""

    def __init__(
        self,
        paths: DataPaths,
        now: Callable[[], datetime],
        refusal: Callable[[], Exception | None] = lambda: None,
    ) -> None:
        self._paths = paths
        self._now = now
        self._refusal = refusal

    def run(self, step: Step[R]) -> R:
        refused = self._refusal()
        if refused is not None:
            raise refused
        is_new = not (self._paths.state / DATABASE).exists()
        database = open_database(self._paths, self._now, is_holder=is_new, report=lambda _: None)
        try:
            return database.run(step)
        finally:
            database.close()

    def query(self, question: Step[R]) -> R:
        return self.run(question)


def file_changes(
    paths: DataPaths,
    journal: Journal,
    disk: Disk | None = None,
    now: Callable[[], datetime] = lambda: NOW,
    refusal: Callable[[], Exception | None] = lambda: None,
) -> FileChanges:
    return FileChanges(paths, RowsBeside(paths, now, refusal), journal, now, disk)
