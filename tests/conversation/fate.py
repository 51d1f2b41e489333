"""A process that dies at a chosen step: between any two writes, or in the middle of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from ollim_bot.domain.inbox import InboxRow
from ollim_bot.ports import Log, LogView, Store
from ollim_bot.store.store import Store as Database
from ollim_bot.store.store import Subscriber
from ollim_bot.store.transaction import Transaction
from ollim_bot.stores import Stores

T = TypeVar("T")
R = TypeVar("R")


class Crash(BaseException):
    """No handler of the program may catch it, as none catches a `kill -9`."""


class Fate:
    """Counts the steps of a life and ends it at one of them; what is dead does nothing more."""

    def __init__(self, at: int | None = None) -> None:
        self.steps: list[str] = []
        self.is_dead = False
        self._at = at

    def check(self) -> None:
        if self.is_dead:
            raise Crash

    def step(self, what: str) -> None:
        self.check()
        self.steps.append(what)
        if len(self.steps) == self._at:
            self.is_dead = True
            raise Crash(what)


class SteppedStore:
    """Each write is two steps: the moment before it took effect, and the moment after."""

    def __init__(self, name: str, store: Store[Any], fate: Fate) -> None:
        self._name = name
        self._store = store
        self._fate = fate

    def read(self) -> Any:
        self._fate.check()
        return self._store.read()

    def transact(self, step: Callable[[Any], tuple[Any, R]]) -> R:
        self._fate.step(f"before a change of {self._name}")
        result = self._store.transact(step)
        self._fate.step(f"after a change of {self._name}")
        return result


class SteppedLog:
    """`written` has all that was ever appended, also what was made short since."""

    def __init__(self, name: str, log: Log[Any], fate: Fate, written: list[Any]) -> None:
        self._name = name
        self._log = log
        self._fate = fate
        self._written = written

    def append(self, *entries: Any) -> None:
        what = f"{type(entries[0]).__name__} in {self._name}" if entries else self._name
        self._fate.step(f"before {what}")
        self._log.append(*entries)
        self._written += entries
        self._fate.step(f"after {what}")

    def read(self, since: datetime | None = None) -> LogView[Any]:
        self._fate.check()
        return self._log.read(since)

    def tail(self, limit: int) -> LogView[Any]:
        self._fate.check()
        return self._log.tail(limit)

    def compact(self, keep: Callable[[Sequence[Any]], Iterable[Any]]) -> None:
        self._fate.step(f"before {self._name} is made short")
        self._log.compact(keep)
        self._fate.step(f"after {self._name} is made short")


class SteppedDatabase:
    """A `Store`. Each step is two: the moment before it is committed, and the moment after."""

    def __init__(self, store: Database, fate: Fate) -> None:
        self._store = store
        self._fate = fate

    async def transact(self, step: Callable[[Transaction], R]) -> R:
        self._fate.step("before a commit")
        result = await self._store.transact(step)
        self._fate.step("after a commit")
        return result

    async def read(self, question: Callable[[Transaction], R]) -> R:
        self._fate.check()
        return await self._store.read(question)

    def run(self, step: Callable[[Transaction], R]) -> R:
        self._fate.check()
        return self._store.run(step)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        return self._store.subscribe(subscriber)

    @property
    def is_writable(self) -> bool:
        return self._store.is_writable

    async def until_writable(self) -> None:
        await self._store.until_writable()


def fated(stores: Stores, fate: Fate, inbox_rows: list[InboxRow]) -> Stores:
    """The same stores, for one life."""
    return replace(
        stores,
        session=SteppedStore("the session", stores.session, fate),
        session_history=SteppedLog("the history", stores.session_history, fate, []),
        updates=SteppedStore("the updates", stores.updates, fate),
        fork=SteppedStore("the fork", stores.fork, fate),
        inquiries=SteppedStore("the inquiries", stores.inquiries, fate),
        config=SteppedStore("the settings", stores.config, fate),
        memory=SteppedStore("the memory", stores.memory, fate),
        ledger=SteppedLog("the ledger", stores.ledger, fate, []),
        inbox=SteppedLog("the inbox", stores.inbox, fate, inbox_rows),
    )
