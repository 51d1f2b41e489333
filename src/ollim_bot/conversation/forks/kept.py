"""The fork that is open now, at hand and on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ollim_bot.domain.forks import Fork
from ollim_bot.ports import Store


class KeptFork:
    """`fork` is what the file holds; None if none is open."""

    def __init__(self, store: Store[Fork | None]) -> None:
        self.fork: Fork | None = None
        self._store = store
        self._changed = asyncio.Event()

    async def load(self) -> None:
        self.fork = await asyncio.to_thread(self._store.read)

    async def keep(self, fork: Fork | None) -> None:
        """On disk when it returns."""
        await asyncio.to_thread(self._store.transact, lambda _: (fork, None))
        self.fork = fork
        self._changed.set()

    async def change(self, step: Callable[[Fork], Fork]) -> None:
        """Nothing, if none is open."""
        if self.fork is not None and (after := step(self.fork)) != self.fork:
            await self.keep(after)

    async def next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
