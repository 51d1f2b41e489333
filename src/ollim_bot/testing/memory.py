"""Stores, logs and shelves in memory, for tests of the code above them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime
from pathlib import Path
from typing import Generic, TypeVar

from ollim_bot.domain.cards import ButtonPrompts
from ollim_bot.domain.forks import Fork
from ollim_bot.domain.inbox import Accepted, Inbox, InboxRow
from ollim_bot.domain.jobs import Job, ShelfReport, Shelved
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.run_history import claimed_by, claiming_row
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.updates import PendingUpdates
from ollim_bot.errors import DuplicateId, NotFound
from ollim_bot.ports import LogView
from ollim_bot.store.connection import Statements
from ollim_bot.store.database import Step
from ollim_bot.store.inbox import InboxInputs
from ollim_bot.store.job_formats import REMINDERS, ROUTINES, WEBHOOKS, JobFormat
from ollim_bot.store.record_views import on_records
from ollim_bot.store.transaction import Transaction
from ollim_bot.stores import Stores
from ollim_bot.testing.repeating_store import RecordedStatements, RepeatingStore

T = TypeVar("T")
R = TypeVar("R")
J = TypeVar("J", bound=Job)


def memory_stores(now: datetime) -> Stores:
    """The equivalent of `open_stores` for a new data directory."""
    no_session: SessionId | None = None
    no_fork: Fork | None = None
    no_facts: Mapping[str, object] = {}
    ledger = MemoryLedger()
    stores = Stores(
        session=MemoryStore(no_session),
        session_history=MemoryLog(lambda event: event.timestamp),
        updates=MemoryStore(PendingUpdates()),
        fork=MemoryStore(no_fork),
        inquiries=MemoryStore(ButtonPrompts()),
        config=MemoryStore(RuntimeConfig()),
        memory=MemoryStore(no_facts),
        ledger=ledger,
        claims=ledger,
        inbox=MemoryLog(lambda row: row.at),
        routines=MemoryShelf(ROUTINES),
        reminders=MemoryShelf(REMINDERS),
        webhooks=MemoryShelf(WEBHOOKS),
    )
    return on_records(stores, RecordingStore(lambda: now))


class RecordingStore(RepeatingStore):
    """Also knows all rows that the inbox was ever given, in order."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(now)
        self.inbox_rows: list[InboxRow] = []
        self._attempted: list[InboxRow] = []

    def begin(self) -> tuple[RecordedStatements, Transaction]:
        statements, tx = super().begin()
        self._attempted = []
        tx.inbox = _RecordingInbox(statements, self._attempted)
        return statements, tx

    def run(self, step: Step[R]) -> R:
        result = super().run(step)
        self.inbox_rows += self._attempted
        return result


class _RecordingInbox(InboxInputs):
    def __init__(self, statements: Statements, rows: list[InboxRow]) -> None:
        super().__init__(statements)
        self._rows = rows

    def append(self, *rows: InboxRow) -> Inbox:
        for row in rows:
            if not isinstance(row, Accepted) or not self.has(row.input.id):
                self._rows.append(row)
            super().append(row)
        return self.get()


class MemoryStore(Generic[T]):
    def __init__(self, value: T) -> None:
        self._value = value
        self._lock = threading.Lock()

    def read(self) -> T:
        return self._value

    def transact(self, step: Callable[[T], tuple[T, R]]) -> R:
        with self._lock:
            self._value, result = step(self._value)
            return result


class MemoryLog(Generic[T]):
    """`moment` gives the time of an entry."""

    def __init__(self, moment: Callable[[T], datetime]) -> None:
        self._entries: list[T] = []
        self._moment = moment
        self._lock = threading.Lock()

    def append(self, *entries: T) -> None:
        with self._lock:
            self._entries = [*self._entries, *entries]

    def read(self, since: datetime | None = None) -> LogView[T]:
        return LogView([e for e in self._entries if since is None or self._moment(e) >= since])

    def tail(self, limit: int) -> LogView[T]:
        return LogView(self._entries[max(0, len(self._entries) - limit) :])

    def compact(self, keep: Callable[[Sequence[T]], Iterable[T]]) -> None:
        with self._lock:
            self._entries = list(keep(self._entries))


class MemoryLedger(MemoryLog[LedgerRow]):
    def __init__(self) -> None:
        super().__init__(lambda row: row.ts)

    def claim(
        self, occurrence: Occurrence, now: datetime, facts: Mapping[str, object] | None = None
    ) -> bool:
        return bool(self.claim_all([claiming_row(occurrence, now, facts)]))

    def claim_all(self, rows: Sequence[LedgerRow]) -> Set[Occurrence]:
        wanted = claimed_by(rows)
        with self._lock:
            free = wanted - {row.occurrence for row in self._entries}
            self._entries = [*self._entries, *(row for row in rows if row.occurrence in free)]
            return free


class MemoryShelf(Generic[J]):
    def __init__(self, form: JobFormat[J]) -> None:
        self._form = form
        self._jobs: dict[str, Shelved[J]] = {}
        self._lock = threading.Lock()

    def report(self) -> ShelfReport[J]:
        return ShelfReport(self.all())

    def all(self) -> Sequence[Shelved[J]]:
        return sorted(self._jobs.values(), key=lambda shelved: shelved.path)

    def get(self, item_id: str) -> Shelved[J]:
        try:
            return self._jobs[item_id]
        except KeyError:
            raise NotFound(self._form.kind, item_id) from None

    def add(self, item: J) -> Path:
        with self._lock:
            path = Path(f"{self._form.kind}s") / f"{item.spec.id}.md"
            if item.spec.id in self._jobs:
                raise DuplicateId(item.spec.id, [str(path), "the new file"])
            self._jobs[item.spec.id] = Shelved(item, path)
            return path

    def amend(self, item_id: str, changes: Mapping[str, object], body: str | None = None) -> J:
        with self._lock:
            shelved = self.get(item_id)
            fields = {**self._form.written(shelved.item), **changes}
            kept = {name: value for name, value in fields.items() if value is not None}
            message = shelved.item.spec.message if body is None else body
            job = self._form.made(kept, message)
            self._jobs[item_id] = shelved._replace(item=job)
            return job

    def remove(self, item_id: str) -> Path:
        with self._lock:
            path = self.get(item_id).path
            del self._jobs[item_id]
            return path
