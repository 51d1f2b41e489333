"""How many background runs there are at once; the others wait in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count

Rank = tuple[int, float]


class Slots:
    """`most` is asked each time, so that a change of the setting counts at once.

    Who has the lowest rank is next: reminders before others, then by due time.
    """

    def __init__(self) -> None:
        self._running = 0
        self._order = count()
        self._waiting: list[tuple[Rank, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def slot(self, rank: Rank, most: int) -> AsyncIterator[None]:
        if self._running >= most or self._waiting:
            await self._turn_of(rank)
        else:
            self._running += 1
        try:
            yield
        finally:
            self._pass_on(most)

    async def _turn_of(self, rank: Rank) -> None:
        ticket = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (rank, next(self._order), ticket))
        try:
            await ticket
        except asyncio.CancelledError:
            # It may have been called up in the same moment, and must not take the slot along.
            if ticket.done() and not ticket.cancelled():
                self._pass_on(self._running)
            raise

    def _pass_on(self, most: int) -> None:
        self._running -= 1
        while self._waiting and self._running < most:
            _, _, ticket = heappop(self._waiting)
            if not ticket.done():
                self._running += 1
                ticket.set_result(None)
