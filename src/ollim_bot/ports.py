"""The seams: what the core asks of the world. Each has a double and a contract in `testing`.

The storage seams are synchronous and safe to use from any thread and any process at once. They may
wait for a disk or for another process, so code on the event loop calls them through
`asyncio.to_thread`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Clock(Protocol):
    """Time as the rest of the program sees it, so that a test can move it."""

    def now(self) -> datetime:
        """The present instant, in the owner's zone."""

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring lengths of time only."""

    async def sleep(self, seconds: float) -> None: ...


class Store(Protocol[T]):
    """One value in one file.

    A file whose content cannot be understood is set aside and reported; the value is then the one
    of a missing file. A file that cannot be read at all raises `Unreadable`.
    """

    def read(self) -> T: ...

    def transact(self, step: Callable[[T], tuple[T, R]]) -> R:
        """Replace the value by `step(value)[0]`, as one step among all threads and processes.

        When it returns, the new value is on disk for good. When it raises, whatever `step` raised
        or the disk refused, the file holds the old value; or the new one, whole, where nothing but
        the last sync failed. `step` must not use the same store.
        """


class StateStore(Protocol):
    """The store of all state, for parts that must not know its tables: `tx` is a `Transaction`."""

    async def transact(self, step: Callable[[Any], R]) -> R: ...

    async def read(self, question: Callable[[Any], R]) -> R: ...

    def run(self, step: Callable[[Any], R]) -> R: ...

    def query(self, question: Callable[[Any], R]) -> R: ...

    def subscribe(self, subscriber: Callable[[frozenset[str]], None]) -> Callable[[], None]: ...

    @property
    def is_writable(self) -> bool: ...

    async def until_writable(self) -> None: ...


class LogView(NamedTuple, Generic[T]):
    """What a log holds: the entries that could be understood, and how many lines could not."""

    entries: Sequence[T]
    skipped: int = 0


class Log(Protocol[T]):
    """Entries in the order in which they were appended."""

    def append(self, *entries: T) -> None:
        """All of the entries, next to each other, or none of them."""

    def read(self, since: datetime | None = None) -> LogView[T]:
        """The entries, leaving out those from before `since`."""

    def tail(self, limit: int) -> LogView[T]:
        """The newest entries, oldest first, at a cost that does not grow with the history.

        What is skipped counts only as far back as had to be read.
        """

    def compact(self, keep: Callable[[Sequence[T]], Iterable[T]]) -> None:
        """Replace the entries by `keep(entries)`; nothing appended meanwhile is lost."""


class Shelved(NamedTuple, Generic[T]):
    """A document that could be understood, and the file it stands in."""

    item: T
    path: Path


class ShelfReport(NamedTuple, Generic[T]):
    """Everything on a shelf: what is right, and a sentence for all that is not."""

    jobs: Sequence[Shelved[T]]
    problems: Sequence[str] = ()
    warnings: Sequence[str] = ()


class Shelf(Protocol[T]):
    """Documents in a folder, each with an id of its own; people may edit them at any time."""

    def report(self) -> ShelfReport[T]: ...

    def all(self) -> Sequence[Shelved[T]]:
        """Every right document, by file name. Wrong ones never hide the others."""

    def get(self, item_id: str) -> Shelved[T]:
        """Raises `NotFound`, `DuplicateId`, or `BadJob` if its document is wrong."""

    def add(self, item: T) -> Path:
        """Write a new document. No existing file is ever replaced by it."""

    def amend(self, item_id: str, changes: Mapping[str, object], body: str | None = None) -> T:
        """Change the named fields (None takes one away) in what the file holds now.

        Everything else a person wrote stays as it is. Raises `BadJob` if the result would be wrong.
        """

    def remove(self, item_id: str) -> Path: ...


class Journal(Protocol):
    """The history of the files that people and the agent share."""

    def note(self, path: Path, message: str) -> None:
        """Remember that `path` was written or removed. Returns at once and never raises."""


class Disk(Protocol):
    """The file system: every change of a data file is made of these steps.

    Nothing is promised to survive a power cut but the content that was given to `sync` and the
    names that stood in a folder given to `sync_folder`.
    """

    def read(self, path: Path, most: int) -> bytes:
        """Raises `OSError`, also for what is no regular file and for more bytes than `most`."""

    def write(self, path: Path, data: bytes, mode: int) -> None:
        """Make a new file with all of `data`, in place of one that a crash left behind.

        A new one, since the old may have been given a second name by `link` before the crash.
        """

    def append(self, path: Path, data: bytes, mode: int, *, sync: bool) -> None:
        """Add all of `data` at the end, or nothing; with `sync`, the content is synced too."""

    def sync(self, path: Path) -> None: ...

    def replace(self, source: Path, target: Path) -> None: ...

    def link(self, source: Path, target: Path) -> None:
        """Give the file a second name; raises `FileExistsError` if it is taken."""

    def remove(self, path: Path) -> None: ...

    def sync_folder(self, folder: Path) -> None: ...
