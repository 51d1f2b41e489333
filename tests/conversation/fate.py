"""A process that dies at a chosen step: between any two writes, or in the middle of the engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, NoReturn, Protocol, Self, TypeVar

from tests.stores import Stores, on_store

from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.errors import Unreadable, WriteFailed
from ollim_bot.store.database import Step
from ollim_bot.store.store import Store as StateStore
from ollim_bot.store.store import Subscriber
from ollim_bot.store.transaction import Transaction

T = TypeVar("T")
R = TypeVar("R")


class Crash(BaseException):
    """No handler of the program may catch it, as none catches a `kill -9`."""


class Fate:
    """Counts the steps of a life and ends it at one of them; what is dead does nothing more.

    `only` is how the steps begin that count.
    """

    def __init__(self, at: int | None = None, only: str = "") -> None:
        self.steps: list[str] = []
        self.is_dead = False
        self._at = at
        self._only = only

    def check(self) -> None:
        if self.is_dead:
            raise Crash

    def step(self, what: str) -> None:
        self.check()
        if not what.startswith(self._only):
            return
        self.steps.append(what)
        if len(self.steps) == self._at:
            self.is_dead = True
            raise Crash(what)


class Mortal(Protocol):
    """What lives on after a death of the bot: `copied` is all of it at this moment."""

    def copied(self) -> Self: ...

    def kept(self) -> tuple[object, ...]: ...


M = TypeVar("M", bound=Mortal)


class Witness(Fate, Generic[M]):
    """Ends no life. `deaths` is what a death at each step would leave, with the step's name.

    Nothing is noted where nothing new was kept: to die there is to die at the step before.
    """

    def __init__(self, world: M) -> None:
        super().__init__()
        self.deaths: list[tuple[str, M]] = []
        self._world = world

    def step(self, what: str) -> None:
        super().step(what)
        if not self.deaths or self._world.kept() != self.deaths[-1][1].kept():
            self.deaths.append((f"crash at step {len(self.steps)}: {what}", self._world.copied()))


class SteppedShelf:
    """Each change of a file is two steps of a life."""

    def __init__(self, shelf: Any, fate: Fate) -> None:
        self._shelf = shelf
        self._fate = fate

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._shelf, name)
        if name not in ("add", "remove"):
            return inner

        def stepped(*arguments: Any) -> Any:
            self._fate.step(f"before {name}")
            result = inner(*arguments)
            self._fate.step(f"after {name}")
            return result

        return stepped


class SteppedState:
    """A store; each of its steps is two steps of a life, before it is committed and after it."""

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


class VetoingState(SteppedState):
    """A store that refuses steps which add such rows to the ledger, with `error`."""

    def __init__(
        self, inner: StateStore, refuses: Callable[[LedgerRow], bool], error: Exception
    ) -> None:
        super().__init__(inner, Fate())
        self._refuses = refuses
        self._error = error

    async def transact(self, step: Step[R]) -> R:
        return await super().transact(self._vetoed(step))

    def run(self, step: Step[R]) -> R:
        return super().run(self._vetoed(step))

    def _vetoed(self, step: Step[R]) -> Step[R]:
        def vetoed(tx: Transaction) -> R:
            _, before = tx.ledger.page(0, 2**40)
            result = step(tx)
            rows, _ = tx.ledger.page(before, 2**40)
            if any(map(self._refuses, rows)):
                raise self._error
            return result

        return vetoed


class FailingOnce(SteppedState):
    """A store that fails once: at a step that changes `name`, or at reading the settings."""

    def __init__(self, inner: StateStore, error: Exception, name: str | None = None) -> None:
        super().__init__(inner, Fate())
        self._name = name
        self._errors = [error]

    async def transact(self, step: Step[R]) -> R:
        def failing(tx: Transaction) -> R:
            result = step(tx)
            if self._errors and self._name in tx.changed:
                raise self._errors[0]
            return result

        try:
            return await super().transact(failing)
        except Exception as failed:
            if failed in self._errors:
                self._errors.remove(failed)
            raise

    async def read(self, question: Step[R]) -> R:
        answer = await super().read(question)
        if self._name is None and self._errors and isinstance(answer, RuntimeConfig):
            raise self._errors.pop()
        return answer


def fated(stores: Stores, fate: Fate) -> Stores:
    """The same state, for one life."""
    return on_store(stores, SteppedState(stores.state, fate))
