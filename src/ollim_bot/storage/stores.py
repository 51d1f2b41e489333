"""Every store of the data directory, made once and handed to whoever needs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from ollim_bot.data_paths import DataPaths
from ollim_bot.domain.fork_messages import ForkMessage
from ollim_bot.domain.inquiries import Inquiries
from ollim_bot.domain.jobs import Job, Reminder, Routine, WebhookSpec
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.domain.sessions import SessionEvent, SessionId
from ollim_bot.domain.updates import PendingUpdate, PendingUpdates
from ollim_bot.errors import StorageError
from ollim_bot.ports import Disk, Journal, Log, Store
from ollim_bot.storage.codecs import (
    LEDGER_ROWS,
    SESSION_EVENTS,
    ForkMessagesCodec,
    InquiriesCodec,
    MemoryCodec,
    PendingUpdatesCodec,
    PingBudgetCodec,
    RuntimeConfigCodec,
    SessionIdCodec,
)
from ollim_bot.storage.file_store import Codec, FileStore, StoreProblem
from ollim_bot.storage.files import OsDisk
from ollim_bot.storage.jobs.form import JobFormat
from ollim_bot.storage.jobs.reminders import REMINDERS
from ollim_bot.storage.jobs.routines import ROUTINES
from ollim_bot.storage.jobs.shelf import MarkdownShelf
from ollim_bot.storage.jobs.webhooks import WEBHOOKS
from ollim_bot.storage.json_lines import JsonLines
from ollim_bot.storage.locks import FileLock

T = TypeVar("T")
J = TypeVar("J", bound=Job)


@dataclass(frozen=True, slots=True)
class Stores:
    session: Store[SessionId | None]
    session_history: Log[SessionEvent]
    updates: Store[PendingUpdates]
    fork_messages: Store[tuple[ForkMessage, ...]]
    inquiries: Store[Inquiries]
    pings: Store[PingBudget]
    config: Store[RuntimeConfig]
    memory: Store[Mapping[str, object]]
    ledger: Log[LedgerRow]
    routines: MarkdownShelf[Routine]
    reminders: MarkdownShelf[Reminder]
    webhooks: MarkdownShelf[WebhookSpec]


def open_stores(
    paths: DataPaths,
    *,
    now: Callable[[], datetime],
    journal: Journal,
    disk: Disk | None = None,
    on_problem: Callable[[StoreProblem], None] | None = None,
) -> Stores:
    """Nothing is read or written yet; the data directory is prepared elsewhere.

    A state file that had to be set aside becomes a pending update, and is given to `on_problem`.
    """
    return _Opening(paths, now, journal, disk or OsDisk(), on_problem).stores()


def leave_update(
    updates: Store[PendingUpdates], ledger: Log[LedgerRow], message: str, now: datetime
) -> None:
    """Leave a summary for the main session; what has to give way stays readable in the ledger."""
    update = PendingUpdate(now, message, os.urandom(4).hex())

    def step(pending: PendingUpdates) -> tuple[PendingUpdates, None]:
        after, dropped = pending.appended(update)
        # In the ledger first: a crash in between repeats a row there and loses nothing.
        ledger.append(
            *(LedgerRow(now, "update_dropped", facts={"message": old.message}) for old in dropped)
        )
        return after, None

    updates.transact(step)


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
        self._updates = self._store(paths.pending_updates, PendingUpdatesCodec())
        self._ledger = JsonLines(
            paths.ledger,
            LEDGER_ROWS,
            self._lock(paths.ledger),
            disk=disk,
            durable=True,
            rotate=True,
        )

    def stores(self) -> Stores:
        paths = self._paths
        return Stores(
            session=self._store(paths.sessions, SessionIdCodec()),
            session_history=JsonLines(
                paths.session_history,
                SESSION_EVENTS,
                self._lock(paths.session_history),
                disk=self._disk,
                appended=self._note_session_events,
            ),
            updates=self._updates,
            fork_messages=self._store(paths.fork_messages, ForkMessagesCodec()),
            inquiries=self._store(paths.inquiries, InquiriesCodec()),
            pings=self._store(paths.ping_budget, PingBudgetCodec(self._now)),
            config=self._store(paths.config, RuntimeConfigCodec()),
            memory=self._store(paths.memory, MemoryCodec()),
            ledger=self._ledger,
            routines=self._shelf(paths.routines, ROUTINES),
            reminders=self._shelf(paths.reminders, REMINDERS),
            webhooks=self._shelf(paths.webhooks, WEBHOOKS),
        )

    def _lock(self, path: Path) -> FileLock:
        return FileLock(self._paths.lock_of(path))

    def _store(self, path: Path, codec: Codec[T]) -> FileStore[T]:
        return FileStore(path, codec, self._lock(path), disk=self._disk, report=self._report)

    def _shelf(self, folder: Path, form: JobFormat[J]) -> MarkdownShelf[J]:
        return MarkdownShelf(
            folder, form, self._lock(folder), disk=self._disk, journal=self._journal
        )

    def _report(self, problem: StoreProblem) -> None:
        # One bad file hurts nobody else, not even by way of telling about it.
        with suppress(StorageError):
            leave_update(self._updates, self._ledger, str(problem), self._now())
        if self._on_problem is not None:
            self._on_problem(problem)

    def _note_session_events(self, events: Sequence[SessionEvent]) -> None:
        for event in events:
            self._journal.note(self._paths.session_history, event.journal_message)
