"""A simulated crash at a chosen step of a run: around a write, or in a turn of the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import count
from typing import Any, TypeVar

from tests.stores import Stores, on_store

from ollim_bot.kernel.store.backend import ALONE
from ollim_bot.kernel.store.store import Store as StateStore
from ollim_bot.kernel.store.transaction import Step, Transaction

R = TypeVar("R")


class Crash(BaseException):
    """Not an `Exception`, so that no handler of the program catches it, as with `kill -9`."""


class StepCounter:
    """Counts the steps of one run of the bot, and raises `Crash` at step `crash_at`.

    After the crash, every further step and check raises `Crash` too. Only steps whose name begins
    with `only` are counted.
    """

    def __init__(self, crash_at: int | None = None, only: str = "") -> None:
        self.steps: list[str] = []
        self.has_crashed = False
        self._crash_at = crash_at
        self._only = only

    def check(self) -> None:
        if self.has_crashed:
            raise Crash

    def step(self, what: str) -> None:
        self.check()
        if not what.startswith(self._only):
            return
        self.steps.append(what)
        if len(self.steps) == self._crash_at:
            self.has_crashed = True
            raise Crash(what)


def each_crash() -> Iterator[StepCounter]:
    """A counter for each step that a run can crash at, and one for the run without a crash."""
    for crash_at in count(1):
        counter = StepCounter(crash_at)
        yield counter
        if not counter.has_crashed:
            return


class CrashingRepository:
    """A repository of job files; each change of a file is two steps, before it and after it."""

    def __init__(self, repository: Any, counter: StepCounter) -> None:
        self._repository = repository
        self._counter = counter

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._repository, name)
        if name not in ("add", "remove"):
            return inner

        def stepped(*arguments: Any) -> Any:
            self._counter.step(f"before {name}")
            result = inner(*arguments)
            self._counter.step(f"after {name}")
            return result

        return stepped


class CrashingStore:
    """A store; each of its transactions is two steps, before its commit and after it."""

    def __init__(self, inner: StateStore, counter: StepCounter) -> None:
        self.inner = inner
        self._counter = counter

    async def transact(self, step: Step[R]) -> R:
        changed: list[str] = []

        def noted(tx: Transaction) -> R:
            result = step(tx)
            changed[:] = sorted(tx.changed)
            return result

        self._counter.step("before a step")
        result = await self.inner.transact(noted)
        self._counter.step(f"after a step that changes {', '.join(changed) or 'nothing'}")
        return result

    async def read(self, question: Step[R]) -> R:
        self._counter.check()
        return await self.inner.read(question)

    def run(self, step: Step[R]) -> R:
        self._counter.step("before a step of a thread")
        result = self.inner.run(step)
        self._counter.step("after a step of a thread")
        return result

    def query(self, question: Step[R]) -> R:
        self._counter.check()
        return self.inner.query(question)

    def changes(
        self, *names: str, event: asyncio.Event | None = None
    ) -> AbstractContextManager[asyncio.Event]:
        return self.inner.changes(*names, event=event)

    @property
    def is_writable(self) -> bool:
        return self.inner.is_writable

    sharing = ALONE

    async def until_writable(self) -> None:
        await self.inner.until_writable()


def crashing_stores(stores: Stores, counter: StepCounter) -> Stores:
    """The same stores, for the run that `counter` counts."""
    return on_store(stores, CrashingStore(stores.state, counter))
