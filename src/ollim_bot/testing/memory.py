"""Stores, logs and shelves without a disk, for tests of what stands on them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Generic, TypeVar

from ollim_bot.domain.jobs import Job
from ollim_bot.errors import DuplicateId, NotFound
from ollim_bot.ports import LogView, Shelved

T = TypeVar("T")
R = TypeVar("R")
J = TypeVar("J", bound=Job)


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
    """`moment` says when an entry is from."""

    def __init__(self, moment: Callable[[T], datetime]) -> None:
        self._entries: list[T] = []
        self._moment = moment
        self._lock = threading.Lock()

    def append(self, *entries: T) -> None:
        with self._lock:
            self._entries = [*self._entries, *entries]

    def read(self, since: datetime | None = None) -> LogView[T]:
        return LogView([e for e in self._entries if since is None or self._moment(e) >= since])

    def compact(self, keep: Callable[[Sequence[T]], Iterable[T]]) -> None:
        with self._lock:
            self._entries = list(keep(self._entries))


class MemoryShelf(Generic[J]):
    """Changes are made by `change(job, fields, body)`, since there is no document to edit."""

    def __init__(
        self, kind: str, change: Callable[[J, Mapping[str, object], str | None], J]
    ) -> None:
        self._kind = kind
        self._change = change
        self._jobs: dict[str, Shelved[J]] = {}
        self._lock = threading.Lock()

    def all(self) -> Sequence[Shelved[J]]:
        return sorted(self._jobs.values(), key=lambda shelved: shelved.path)

    def get(self, item_id: str) -> Shelved[J]:
        try:
            return self._jobs[item_id]
        except KeyError:
            raise NotFound(self._kind, item_id) from None

    def add(self, item: J) -> Path:
        with self._lock:
            path = Path(f"{self._kind}s") / f"{item.spec.id}.md"
            if item.spec.id in self._jobs:
                raise DuplicateId(item.spec.id, [str(path), "the new file"])
            self._jobs[item.spec.id] = Shelved(item, path)
            return path

    def amend(self, item_id: str, changes: Mapping[str, object], body: str | None = None) -> J:
        with self._lock:
            shelved = self.get(item_id)
            job = self._change(shelved.item, changes, body)
            self._jobs[item_id] = shelved._replace(item=job)
            return job

    def remove(self, item_id: str) -> Path:
        with self._lock:
            path = self.get(item_id).path
            del self._jobs[item_id]
            return path
