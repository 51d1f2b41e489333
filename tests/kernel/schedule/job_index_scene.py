"""A data directory with an open job index, and the ways in which editors save its files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from devtools.doubles.clock import ManualClock
from devtools.doubles.disks import SteppedDisk
from devtools.doubles.journal import RecordingJournal
from tests.kernel.store.files.data_directory import QuickDisk

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.change_journal import ChangeJournal
from ollim_bot.kernel.schedule.job_index import Changes, JobIndex
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.values.ports import Disk

NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
A_WHILE = 5.0

# A way to save a file; it yields after each change that another process can see.
Editor = Callable[[Path, str], Iterator[None]]


def routine(job_id: str, cron: str = "0 9 * * *", body: str = "Plan the day.") -> str:
    return f'---\nid: {job_id}\ncron: "{cron}"\n---\n{body}\n'


def reminder(job_id: str, body: str = "Call them.") -> str:
    return f"---\nid: {job_id}\nrun-at: 2027-01-08T09:00\n---\n{body}\n"


WRONG = '---\nid: plan\ncron: "99 * * * *"\n---\nPlan the day.\n'


class RecordingNotices:
    """Doubles `Notices`: `said` has all sentences, `known` those that were not forgotten."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.known: set[str] = set()

    async def tell(self, sentence: str, **_: bool) -> None:
        self.said.append(sentence)
        self.known.add(sentence)

    async def forget(self, key: str) -> None:
        self.known.discard(key)


class JobIndexScene:
    def __init__(self, root: Path) -> None:
        self.paths = DataPaths(root)
        prepare_data_directory(self.paths)
        self.clock = ManualClock(NOW)
        self.notices = RecordingNotices()
        self.journal = RecordingJournal()
        self.hand_edits = ChangeJournal(self.journal, root, self.clock)
        self.plan = self.paths.routines / "plan.md"
        self.before_each_step: Callable[[str, Path], None] = lambda _, __: None
        self.index = self.open_index()

    def open_index(self, disk: Disk | None = None) -> JobIndex:
        """Open the index again, as a new process does."""
        disk = disk or SteppedDisk(
            QuickDisk(), lambda step, path: self.before_each_step(step, path)
        )
        self.index = JobIndex(self.paths, self.clock, self.notices, self.hand_edits, disk)
        return self.index

    async def refresh(self) -> Changes:
        return await self.index.refresh()

    async def saved(self, text: str) -> Changes:
        """Write the file of the plan, and look."""
        self.plan.write_text(text)
        return await self.refresh()

    async def settled(self) -> Changes:
        """Look now, and once more when every mistake has stood for long enough."""
        await self.refresh()
        return await self.refresh_later()

    async def refresh_later(self, seconds: float = A_WHILE) -> Changes:
        await self.clock.advance(seconds)
        return await self.index.refresh()

    @property
    def messages(self) -> dict[str, str]:
        """The text of every job by its id."""
        return {
            job_id: indexed.job.spec.message for (_, job_id), indexed in self.index.jobs.items()
        }

    @property
    def routine_ids(self) -> set[str]:
        return {job_id for kind, job_id in self.index.jobs if kind is JobKind.ROUTINE}


def in_place(path: Path, text: str) -> Iterator[None]:
    with open(path, "r+") as file:
        file.write(text)
        file.truncate()
    yield


def truncating_first(path: Path, text: str) -> Iterator[None]:
    path.write_text("")
    yield
    path.write_text(text)
    yield


def in_two_halves(path: Path, text: str) -> Iterator[None]:
    path.write_text(text[:20])
    yield
    with open(path, "a") as file:
        file.write(text[20:])
    yield


def renaming_over(path: Path, text: str) -> Iterator[None]:
    temporary = path.with_name(f"{path.name}.swap")
    temporary.write_text(text)
    yield
    os.replace(temporary, path)
    yield


def with_a_backup(path: Path, text: str) -> Iterator[None]:
    os.rename(path, path.with_name(f"{path.name}~"))
    yield
    path.write_text(text)
    yield
    path.with_name(f"{path.name}~").unlink()
    yield


def removing_first(path: Path, text: str) -> Iterator[None]:
    path.unlink()
    yield
    path.write_text(text)
    yield


EDITORS: list[Editor] = [
    in_place,
    truncating_first,
    in_two_halves,
    renaming_over,
    with_a_backup,
    removing_first,
]
