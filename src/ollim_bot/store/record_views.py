"""Records of the database behind the ports of files, for callers that do not take steps yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Generic, TypeVar

from ollim_bot.domain.sessions import SessionEvent
from ollim_bot.ports import LogView
from ollim_bot.store.records import Record
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction
from ollim_bot.stores import Stores

T = TypeVar("T")
R = TypeVar("R")


def on_records(stores: Stores, store: Store) -> Stores:
    """The same stores, with what has moved served by `store`."""
    return replace(
        stores,
        store=store,
        session=RecordView(store, lambda tx: tx.session),
        session_history=HistoryView(store),
        updates=RecordView(store, lambda tx: tx.updates),
        fork=RecordView(store, lambda tx: tx.fork),
        inquiries=RecordView(store, lambda tx: tx.inquiries),
        config=RecordView(store, lambda tx: tx.config),
        memory=RecordView(store, lambda tx: tx.memory),
    )


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

    def read(self, since: datetime | None = None) -> LogView[SessionEvent]:
        events = self._store.query(lambda tx: tx.session_history.all())
        return LogView([each for each in events if since is None or each.timestamp >= since])

    def tail(self, limit: int) -> LogView[SessionEvent]:
        return LogView(self._store.query(lambda tx: tx.session_history.tail(limit)))

    def compact(self, keep: Callable[[Sequence[SessionEvent]], Iterable[SessionEvent]]) -> None:
        raise NotImplementedError
