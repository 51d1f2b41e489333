"""The inbox on disk: what is accepted stays there until it has an end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ollim_bot.domain.inbox import Inbox, InboxRow
from ollim_bot.errors import StorageError
from ollim_bot.ports import Log

_LONG = 400

_logger = logging.getLogger(__name__)


class DurableInbox:
    """`state` is what the rows on disk amount to. Rows are written one after another."""

    def __init__(self, log: Log[InboxRow]) -> None:
        self.state = Inbox()
        self._log = log
        self._rows = 0
        self._one_at_a_time = asyncio.Lock()
        self._changed = asyncio.Event()

    async def load(self) -> None:
        view = await asyncio.to_thread(self._log.read)
        self.state = Inbox.of(view.entries)
        self._rows = len(view.entries)
        await self._shorten()
        self._changed.set()

    async def append(self, *rows: InboxRow) -> None:
        """When it returns, the rows are on disk."""

        def write(log: Log[InboxRow]) -> Sequence[InboxRow]:
            log.append(*rows)
            return rows

        await self.record(write)

    async def record(self, write: Callable[[Log[InboxRow]], Sequence[InboxRow]]) -> None:
        """`write` appends rows in a thread, perhaps as a part of something larger, and gives them.

        Not to be stopped half-way: a row on disk that is not known here would be acted upon twice.
        """
        await asyncio.shield(asyncio.ensure_future(self._record(write)))

    async def work(self, *, in_fork: Callable[[], bool]) -> None:
        """Wait until something waits that can be taken now."""
        while not self.state.next_batch(in_fork=in_fork()):
            self._changed.clear()
            await self._changed.wait()

    async def _record(self, write: Callable[[Log[InboxRow]], Sequence[InboxRow]]) -> None:
        async with self._one_at_a_time:
            rows = await asyncio.to_thread(write, self._log)
            for row in rows:
                self.state = self.state.after(row)
            self._rows += len(rows)
            self._changed.set()
            if self._rows > _LONG and self.state.running is None:
                await self._shorten()

    async def _shorten(self) -> None:
        try:
            await asyncio.to_thread(self._log.compact, _fewest)
        except StorageError:  # the rows are kept, so nobody who appended one is to be told
            _logger.warning("The inbox could not be made shorter", exc_info=True)
        else:
            self._rows = len(self.state.rows())


def _fewest(rows: Sequence[InboxRow]) -> Sequence[InboxRow]:
    return Inbox.of(rows).rows()
