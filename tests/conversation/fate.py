"""A process that dies at a chosen step: between any two writes, or in the middle of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from ollim_bot.errors import Unreadable, WriteFailed
from ollim_bot.ports import Log, LogView, Store
from ollim_bot.store.database import Step
from ollim_bot.store.record_views import on_records
from ollim_bot.store.store import Store as StateStore
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


class SteppedState:
    """A store; each of its steps is two steps of a life, as with `SteppedStore`."""

    def __init__(self, inner: StateStore, fate: Fate) -> None:
        self.inner = inner
        self._fate = fate

    async def transact(self, step: Step[R]) -> R:
        changed: list[str] = []

        def noted(tx: Transaction) -> R:
            result = step(tx)
            changed[:] = sorted(tx.changed)
            return result

        self._fate.step("before a step")
        result = await self.inner.transact(noted)
        self._fate.step(f"after a step that changes {', '.join(changed) or 'nothing'}")
        return result

    async def read(self, question: Step[R]) -> R:
        self._fate.check()
        return await self.inner.read(question)

    def run(self, step: Step[R]) -> R:
        self._fate.step("before a step of a thread")
        result = self.inner.run(step)
        self._fate.step("after a step of a thread")
        return result

    def query(self, question: Step[R]) -> R:
        self._fate.check()
        return self.inner.query(question)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        return self.inner.subscribe(subscriber)

    @property
    def is_writable(self) -> bool:
        return self.inner.is_writable

    async def until_writable(self) -> None:
        await self.inner.until_writable()


class RefusingState(SteppedState):
    """A store whose disk takes no change while it `is_full`."""

    def __init__(self, inner: StateStore, *, is_full: bool = True) -> None:
        super().__init__(inner, Fate())
        self.is_full = is_full

    async def transact(self, step: Step[R]) -> R:
        self._refuse()
        return await super().transact(step)

    def run(self, step: Step[R]) -> R:
        self._refuse()
        return super().run(step)

    def _refuse(self) -> None:
        if self.is_full:
            raise WriteFailed(Path("ollim.db"), "No space left on device.")


class _UnreadableRecord:
    def get(self) -> NoReturn:
        raise Unreadable(Path("ollim.db"), "is there but cannot be read.")


class BlindState(SteppedState):
    """A store whose settings cannot be read while it `is_blind`; all else can."""

    def __init__(self, inner: StateStore, *, is_blind: bool = True) -> None:
        super().__init__(inner, Fate())
        self.is_blind = is_blind

    async def read(self, question: Step[R]) -> R:
        return await super().read(self._blinded(question))

    def query(self, question: Step[R]) -> R:
        return super().query(self._blinded(question))

    def _blinded(self, question: Step[R]) -> Step[R]:
        def blinded(tx: Transaction) -> R:
            if self.is_blind:
                vars(tx)["config"] = _UnreadableRecord()
            return question(tx)

        return blinded


def fated(stores: Stores, fate: Fate) -> Stores:
    """The same stores, for one life."""
    in_files = replace(
        stores,
        ledger=SteppedLog("the ledger", stores.ledger, fate, []),
    )
    return on_records(in_files, SteppedState(stores.state, fate))
