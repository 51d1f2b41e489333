"""A simulated crash at a chosen step of a run: around a write, or in a turn of the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, Self, TypeVar

from tests.stores import Stores, on_store

from ollim_bot.store.database import Step
from ollim_bot.store.store import Store as StateStore
from ollim_bot.store.store import Subscriber
from ollim_bot.store.transaction import Transaction

T = TypeVar("T")
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


class SurvivingState(Protocol):
    """Everything that survives a crash of the bot: its stores, the engine, the chat service."""

    def copied(self) -> Self:
        """An independent copy of the present state."""

    def kept(self) -> tuple[object, ...]:
        """The contents, for comparing two states."""


S = TypeVar("S", bound=SurvivingState)


class CrashRecorder(StepCounter, Generic[S]):
    """Never crashes. `crashes` has, by step, a copy of the state that a crash there would leave.

    A step that left the state as it was is not recorded: a crash there would be the same as a
    crash at the step before.
    """

    def __init__(self, state: S) -> None:
        super().__init__()
        self.crashes: list[tuple[str, S]] = []
        self._state = state

    def step(self, what: str) -> None:
        super().step(what)
        if not self.crashes or self._state.kept() != self.crashes[-1][1].kept():
            self.crashes.append((f"crash at step {len(self.steps)}: {what}", self._state.copied()))


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

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        return self.inner.subscribe(subscriber)

    @property
    def is_writable(self) -> bool:
        return self.inner.is_writable

    async def until_writable(self) -> None:
        await self.inner.until_writable()


def crashing_stores(stores: Stores, counter: StepCounter) -> Stores:
    """The same stores, for the run that `counter` counts."""
    return on_store(stores, CrashingStore(stores.state, counter))
