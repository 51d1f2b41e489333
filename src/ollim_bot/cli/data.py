"""The data directory in the hands of one command."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ollim_bot.cli.wording import plain
from ollim_bot.data_paths import DataPaths
from ollim_bot.domain.jobs import Job
from ollim_bot.ports import Journal
from ollim_bot.storage.files import OsDisk
from ollim_bot.storage.job_documents import JobFormat
from ollim_bot.storage.locks import FileLock
from ollim_bot.storage.markdown_shelf import MarkdownShelf

if TYPE_CHECKING:
    from ollim_bot.cli.caller import Caller
    from ollim_bot.storage.journal import GitJournal
    from ollim_bot.storage.stores import Stores

J = TypeVar("J", bound=Job)


class Data:
    """`now` is in the owner's zone."""

    def __init__(self, paths: DataPaths, now: datetime, journal: Journal) -> None:
        self.paths = paths
        self.now = now
        self._journal = journal

    def shelf(self, folder: Path, form: JobFormat[J]) -> MarkdownShelf[J]:
        """One shelf alone: the other stores would cost a listing a quarter of its time."""
        lock = FileLock(self.paths.locks / folder.name)
        return MarkdownShelf(folder, form, lock, disk=OsDisk(), journal=self._journal)

    def stores(self, on_problem: Callable[[str], None]) -> Stores:
        from ollim_bot.storage.stores import open_stores

        return open_stores(
            self.paths,
            now=lambda: self.now,
            journal=self._journal,
            on_problem=lambda problem: on_problem(str(problem)),
        )


def open_data(caller: Caller) -> Data:
    """To be read: nothing is made on disk."""
    place = caller.place()
    return Data(place.paths, caller.now().astimezone(place.zone), _NoJournal())


@contextmanager
def writable(data: Data) -> Iterator[Data]:
    """The directory is there from now on; what is written becomes history at the end."""
    is_new = prepare(data.paths)
    journal = opened_journal(data.paths)
    if is_new:
        journal.prepare()
    try:
        yield Data(data.paths, data.now, journal)
    finally:
        journal.flush()


def prepare(paths: DataPaths) -> bool:
    """Make the data directory, one process at a time; true if there was none."""
    from ollim_bot.storage.bootstrap import prepare_data_directory

    paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    paths.locks.mkdir(parents=True, exist_ok=True)
    with FileLock(paths.locks / "data-directory").held():
        is_new = not paths.gitignore.exists()
        prepare_data_directory(paths)
        return is_new


def opened_journal(paths: DataPaths) -> GitJournal:
    """Its problems are notes on standard error, for nothing was lost."""
    from ollim_bot.storage.journal import GitJournal

    return GitJournal(paths.root, FileLock(paths.locks / "journal"), on_problem=note)


def note(sentence: str) -> None:
    print(plain(f"note: {sentence}"), file=sys.stderr)


class _NoJournal:
    def note(self, path: Path, message: str) -> None:
        raise AssertionError(f"{path} was written by a command that reads: {message}")
