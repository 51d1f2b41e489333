"""Opens all stores of a data directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from ollim_bot.domain.jobs import Job
from ollim_bot.domain.sessions import SessionEvent
from ollim_bot.paths import DataPaths
from ollim_bot.ports import Disk, Journal
from ollim_bot.store.codecs.records import (
    ForkCodec,
    InquiriesCodec,
    MemoryCodec,
    PendingUpdatesCodec,
    RuntimeConfigCodec,
    SessionIdCodec,
)
from ollim_bot.store.codecs.rows import INBOX_ROWS, SESSION_EVENTS
from ollim_bot.store.file_ledger import Ledger
from ollim_bot.store.file_store import Codec, FileStore, StoreProblem
from ollim_bot.store.files import FileLock, OsDisk
from ollim_bot.store.job_formats import REMINDERS, ROUTINES, WEBHOOKS, JobFormat
from ollim_bot.store.job_shelf import MarkdownShelf
from ollim_bot.store.json_lines import JsonLines, LineCodec
from ollim_bot.stores import Stores

T = TypeVar("T")
J = TypeVar("J", bound=Job)


def open_stores(
    paths: DataPaths,
    *,
    now: Callable[[], datetime],
    journal: Journal,
    disk: Disk | None = None,
    on_problem: Callable[[StoreProblem], None] | None = None,
) -> Stores:
    """Nothing is read or written yet; the data directory is prepared elsewhere.

    `on_problem` is told of a state file that had to be set aside.
    """
    return _Opening(paths, now, journal, disk or OsDisk(), on_problem).stores


class _Opening:
    """The arguments that all stores share, while they are being made."""

    def __init__(
        self,
        paths: DataPaths,
        now: Callable[[], datetime],
        journal: Journal,
        disk: Disk,
        on_problem: Callable[[StoreProblem], None] | None,
    ) -> None:
        self._paths = paths
        self._now = now
        self._journal = journal
        self._disk = disk
        self._on_problem = on_problem
        self.stores = self._opened()

    def _opened(self) -> Stores:
        paths = self._paths
        ledger = Ledger(
            paths.ledger, self._lock(paths.ledger), disk=self._disk, report=self._report
        )
        return Stores(
            session=self._store(paths.sessions, SessionIdCodec()),
            session_history=self._log(
                paths.session_history, SESSION_EVENTS, appended=self._note_session_events
            ),
            updates=self._store(paths.pending_updates, PendingUpdatesCodec()),
            fork=self._store(paths.fork, ForkCodec()),
            inquiries=self._store(paths.inquiries, InquiriesCodec()),
            config=self._store(paths.config, RuntimeConfigCodec()),
            memory=self._store(paths.memory, MemoryCodec()),
            ledger=ledger,
            claims=ledger,
            inbox=self._log(paths.inbox, INBOX_ROWS, durable=True),
            routines=self._shelf(paths.routines, ROUTINES),
            reminders=self._shelf(paths.reminders, REMINDERS),
            webhooks=self._shelf(paths.webhooks, WEBHOOKS),
        )

    def _lock(self, path: Path) -> FileLock:
        return FileLock(self._paths.lock_of(path))

    def _store(self, path: Path, codec: Codec[T]) -> FileStore[T]:
        return FileStore(path, codec, self._lock(path), disk=self._disk, report=self._report)

    def _log(
        self,
        path: Path,
        codec: LineCodec[T],
        *,
        durable: bool = False,
        rotate: bool = False,
        appended: Callable[[Sequence[T]], None] | None = None,
    ) -> JsonLines[T]:
        return JsonLines(
            path,
            codec,
            self._lock(path),
            disk=self._disk,
            durable=durable,
            rotate=rotate,
            appended=appended,
            report=self._report,
        )

    def _shelf(self, folder: Path, form: JobFormat[J]) -> MarkdownShelf[J]:
        return MarkdownShelf(
            folder, form, self._lock(folder), disk=self._disk, journal=self._journal
        )

    def _report(self, problem: StoreProblem) -> None:
        if self._on_problem is not None:
            self._on_problem(problem)

    def _note_session_events(self, events: Sequence[SessionEvent]) -> None:
        for event in events:
            self._journal.note(self._paths.session_history, event.journal_message)
