"""Data directories for tests of the store."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.connection import Connect, connect
from ollim_bot.kernel.store.copies import copy_database
from ollim_bot.kernel.store.database import Database
from ollim_bot.kernel.store.file_store import StoreProblem
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.questions import DATABASE
from ollim_bot.kernel.store.schema import MIGRATIONS
from ollim_bot.kernel.values.ports import Disk, Journal

NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)


@dataclass
class StoreScene:
    """A data directory; `problems` are the problems that were reported."""

    root: Path
    problems: list[str] = field(default_factory=list)
    opened: list[Database] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.paths.locks.mkdir(parents=True, exist_ok=True)

    @property
    def paths(self) -> DataPaths:
        return DataPaths(self.root)

    @property
    def state(self) -> Path:
        return self.paths.state

    def open(
        self,
        *,
        is_holder: bool = True,
        connection: Connect = connect,
        now: Callable[[], datetime] = lambda: NOW,
        disk: Disk | None = None,
        journal: Journal | None = None,
    ) -> Database:
        database = open_database(
            self.paths,
            now,
            is_holder=is_holder,
            report=self._report,
            disk=disk,
            journal=journal,
            connection=connection,
        )
        self.opened.append(database)
        return database

    def close(self) -> None:
        for database in self.opened:
            database.close()

    def return_to_version(self, version: int) -> None:
        """Leave the database as the first program with this schema has left it."""
        self.close()
        later = "\n".join(MIGRATIONS[version:])
        made = re.findall(r"CREATE (TABLE|INDEX) (?:IF NOT EXISTS )?(\w+)", later)
        with closing(sqlite3.connect(self.state / DATABASE)) as connection:
            for kind, name in [*made, *[("TABLE", "search")] * (version < 3)]:
                connection.execute(f"DROP {kind} IF EXISTS {name}")
            connection.execute(f"PRAGMA user_version={version}")

    def return_to_copy(self, at: datetime) -> None:
        """Replace the database with a copy made at `at`, as a person does by hand."""
        path = self.state / "ollim.db"
        copy = copy_database(path, at)
        self.close()
        for log in self.state.glob("ollim.db-*"):
            log.unlink()
        shutil.copy(copy, path)

    def _report(self, problem: StoreProblem) -> None:
        self.problems.append(str(problem))


def without_patience(path: Path) -> sqlite3.Connection:
    """A connection that does not wait for a lock."""
    made = connect(path)
    made.execute("PRAGMA busy_timeout=0")
    return made
