"""Stores that fail in one way each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

from tests.kernel.conversation.crashing import CrashingStore, StepCounter

from ollim_bot.kernel.base.errors import Unreadable, WriteFailed
from ollim_bot.kernel.store.store import Store as StateStore
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot.kernel.values.runtime_config import RuntimeConfig

R = TypeVar("R")


class FullDiskStore(CrashingStore):
    """A store that refuses every write while its disk `is_full`."""

    def __init__(self, inner: StateStore, *, is_full: bool = True) -> None:
        super().__init__(inner, StepCounter())
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


class UnreadableConfigStore(CrashingStore):
    """A store whose settings cannot be read while `is_unreadable`; everything else can."""

    def __init__(self, inner: StateStore, *, is_unreadable: bool = True) -> None:
        super().__init__(inner, StepCounter())
        self.is_unreadable = is_unreadable

    async def read(self, question: Step[R]) -> R:
        return await super().read(self._with_unreadable_config(question))

    def query(self, question: Step[R]) -> R:
        return super().query(self._with_unreadable_config(question))

    def _with_unreadable_config(self, question: Step[R]) -> Step[R]:
        def with_unreadable_config(tx: Transaction) -> R:
            if self.is_unreadable:
                vars(tx)["config"] = _UnreadableRecord()
            return question(tx)

        return with_unreadable_config


class LedgerRefusingStore(CrashingStore):
    """A store that raises `error` when a ledger row is added for which `refuses` is true."""

    def __init__(
        self, inner: StateStore, refuses: Callable[[LedgerRow], bool], error: Exception
    ) -> None:
        super().__init__(inner, StepCounter())
        self._refuses = refuses
        self._error = error

    async def transact(self, step: Step[R]) -> R:
        return await super().transact(self._checked(step))

    def run(self, step: Step[R]) -> R:
        return super().run(self._checked(step))

    def _checked(self, step: Step[R]) -> Step[R]:
        def checked(tx: Transaction) -> R:
            _, before = tx.ledger.page(0, 2**40)
            result = step(tx)
            rows, _ = tx.ledger.page(before, 2**40)
            if any(map(self._refuses, rows)):
                raise self._error
            return result

        return checked


class FailingOnceStore(CrashingStore):
    """A store that raises `error` once: when the part `name` is changed, or by default when the
    settings are read."""

    def __init__(self, inner: StateStore, error: Exception, name: str | None = None) -> None:
        super().__init__(inner, StepCounter())
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
