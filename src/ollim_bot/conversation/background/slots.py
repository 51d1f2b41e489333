"""How many background runs there are at once; the others wait in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count

Rank = tuple[int, float]


class Slots:
    """Who has the lowest rank is next; of the same rank, who came first.

    `most` is how many there may be, from now on and for all.
    """

    def __init__(self) -> None:
        self._most = 0
        self._running = 0
        self._is_closed = False
        self._order = count()
        self._waiting: list[tuple[Rank, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def slot(self, rank: Rank, most: int) -> AsyncIterator[None]:
        if self._is_closed:
            raise asyncio.CancelledError
        self._most = most
        ticket = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (rank, next(self._order), ticket))
        self._call_up()
        try:
            await ticket
            yield
        finally:
            # Who gives up may have been called up in the same moment.
            if ticket.done() and not ticket.cancelled():
                self._running -= 1
                self._call_up()

    def close(self) -> None:
        """Whoever waits is cancelled, and whoever comes; who has a place keeps it."""
        self._is_closed = True
        for _, _, ticket in self._waiting:
            ticket.cancel()

    def _call_up(self) -> None:
        while self._waiting and self._running < self._most:
            _, _, ticket = heappop(self._waiting)
            if not ticket.done():
                self._running += 1
                ticket.set_result(None)
