"""A store on a real database without threads: a step is done when it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.store.backend import ALONE
from ollim_bot.kernel.store.database import Database
from ollim_bot.kernel.store.store import Watches
from ollim_bot.kernel.store.transaction import Step

R = TypeVar("R")


class ImmediateStore:
    """A `Store`. `refusal` is the error of every change; None while changes succeed."""

    def __init__(
        self, database: Database, refusal: Callable[[], StorageError | None] = lambda: None
    ) -> None:
        self._database = database
        self._refusal = refusal
        self._watches = Watches()

    async def transact(self, step: Step[R]) -> R:
        await asyncio.sleep(0)
        return self.run(step)

    async def read(self, question: Step[R]) -> R:
        await asyncio.sleep(0)
        return self.query(question)

    def run(self, step: Step[R]) -> R:
        if refused := self._refusal():
            raise refused
        result, changed = self._database.run_noting(step)
        if changed:
            self._watches.publish(changed)
        return result

    def query(self, question: Step[R]) -> R:
        return self._database.query(question)

    def changes(
        self, *names: str, event: asyncio.Event | None = None
    ) -> AbstractContextManager[asyncio.Event]:
        return self._watches.watching(names, event)

    @property
    def is_writable(self) -> bool:
        return self._refusal() is None

    sharing = ALONE

    async def until_writable(self) -> None:
        """Return at once: the caller repeats a refused step by a clock that a test moves."""

    async def close(self) -> None:
        self._database.close()
