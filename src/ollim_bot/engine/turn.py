"""A turn that runs now, on the process that was asked."""

from __future__ import annotations

import asyncio

from ollim_bot.domain.events import AgentEvent
from ollim_bot.engine.connection import Connection, Gone
from ollim_bot.engine.stream import TurnReader

# How long an interrupted turn may take to end before its process is closed.
_PATIENCE = 5.0


class Turn:
    """Ends by itself, by `interrupt`, or with its process."""

    def __init__(self, connection: Connection, reader: TurnReader) -> None:
        self._connection = connection
        self._reader = reader
        self._is_interrupted = False
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        return self._reader.is_over

    async def events(self) -> list[AgentEvent]:
        """Those of the next message."""
        message = await self._connection.inbox.get()
        if isinstance(message, Gone):
            return list(self._reader.died(interrupted=self._is_interrupted))
        return list(self._reader.read(message))

    async def interrupt(self) -> None:
        if self.is_over or self._is_interrupted:
            return
        self._is_interrupted = True
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(_PATIENCE, self._connection.abandon)
        await self._connection.interrupt()

    async def finish(self) -> list[AgentEvent]:
        """Bring the turn to its end, whatever it takes; gives the events that nobody has read."""
        unheard: list[AgentEvent] = []
        try:
            await self.interrupt()
            while not self.is_over:
                unheard += await self.events()
        except BaseException:  # cancelled too: its rest must not meet the next turn
            self._connection.abandon()
            raise
        finally:
            if self._alarm is not None:
                self._alarm.cancel()
        return unheard
