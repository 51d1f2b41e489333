"""The store and job files of a bot under test, with short ways to read them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from devtools.doubles.memory import RecordingStore, memory_repositories

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.store.records import Record
from ollim_bot.kernel.store.steps import leave_update
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.cards import ButtonPrompts
from ollim_bot.kernel.values.forks import Fork
from ollim_bot.kernel.values.hook_jobs import WebhookSpec
from ollim_bot.kernel.values.jobs import Reminder, Routine
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.ports import JobRepositories, JobRepository
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.sessions import SessionEvent
from ollim_bot.kernel.values.updates import PendingUpdate, PendingUpdates

T = TypeVar("T")
R = TypeVar("R")

_ALL = 2**40


@dataclass(frozen=True, slots=True)
class Stores:
    state: Store
    repositories: JobRepositories

    @property
    def session(self) -> RecordView[SessionId | None]:
        return RecordView(self.state, lambda tx: tx.session)

    @property
    def updates(self) -> RecordView[PendingUpdates]:
        return RecordView(self.state, lambda tx: tx.updates)

    @property
    def fork(self) -> RecordView[Fork | None]:
        return RecordView(self.state, lambda tx: tx.fork)

    @property
    def inquiries(self) -> RecordView[ButtonPrompts]:
        return RecordView(self.state, lambda tx: tx.inquiries)

    @property
    def config(self) -> RecordView[RuntimeConfig]:
        return RecordView(self.state, lambda tx: tx.config)

    @property
    def session_history(self) -> HistoryView:
        return HistoryView(self.state)

    @property
    def ledger(self) -> LedgerView:
        return LedgerView(self.state)

    @property
    def routines(self) -> JobRepository[Routine]:
        return self.repositories.routines

    @property
    def reminders(self) -> JobRepository[Reminder]:
        return self.repositories.reminders

    @property
    def webhooks(self) -> JobRepository[WebhookSpec]:
        return self.repositories.webhooks

    def leave_update(self, message: str, now: datetime, update_id: str | None = None) -> None:
        update = PendingUpdate(now, message, update_id or os.urandom(4).hex())
        self.state.run(lambda tx: leave_update(tx, update))


def memory_stores(now: datetime | Callable[[], datetime]) -> Stores:
    """Stores in memory, as in a new data directory."""
    clock = now if callable(now) else lambda: now
    return Stores(RecordingStore(clock), memory_repositories())


def on_store(stores: Stores, store: Store) -> Stores:
    """The same job files with another store, which may wrap the first."""
    return Stores(store, stores.repositories)


class Entries(NamedTuple, Generic[T]):
    entries: Sequence[T]


class RecordView(Generic[T]):
    def __init__(self, store: Store, record: Callable[[Transaction], Record[T]]) -> None:
        self._store = store
        self._record = record

    def read(self) -> T:
        return self._store.query(lambda tx: self._record(tx).get())

    def transact(self, step: Callable[[T], tuple[T, R]]) -> R:
        return self._store.run(lambda tx: self._record(tx).take(step))


class HistoryView:
    def __init__(self, store: Store) -> None:
        self._store = store

    def append(self, *entries: SessionEvent) -> None:
        self._store.run(lambda tx: tx.session_history.append(*entries))

    def read(self) -> Entries[SessionEvent]:
        return Entries(self._store.query(lambda tx: tx.session_history.all()))


class LedgerView:
    def __init__(self, store: Store) -> None:
        self._store = store

    def append(self, *rows: LedgerRow) -> None:
        self._store.run(lambda tx: tx.ledger.append(*rows))

    def read(self, since: datetime | None = None) -> Entries[LedgerRow]:
        if since is not None:
            return Entries(self._store.query(lambda tx: tx.ledger.rows_since(since)))
        return Entries(self._store.query(lambda tx: tx.ledger.page(0, _ALL)[0]))

    def tail(self, limit: int) -> Entries[LedgerRow]:
        return Entries(self._store.query(lambda tx: tx.ledger.tail(limit)))

    def claim(
        self, occurrence: Occurrence, now: datetime, facts: Mapping[str, object] | None = None
    ) -> bool:
        return self._store.run(lambda tx: tx.ledger.claim(occurrence, now, facts))

    def claim_all(self, rows: Sequence[LedgerRow]) -> Set[Occurrence]:
        return self._store.run(lambda tx: tx.ledger.claim_all(rows))
