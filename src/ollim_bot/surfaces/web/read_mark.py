"""How far the owner has read: one mark for all tabs, kept across restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.surface_state import WebState
from ollim_bot.ports import ChatService
from ollim_bot.store.store import Store
from ollim_bot.surfaces.web import frames
from ollim_bot.surfaces.web.frames import Json, read_frame
from ollim_bot.surfaces.web.refusals import RequestRefused


class KeptMark(Protocol):
    """Where the mark is stored. Its methods may block on the disk."""

    def read(self) -> MessageId | None: ...

    def write(self, message_id: MessageId) -> None: ...


class RememberedMark:
    """A `KeptMark` in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> MessageId | None:
        return self._store.query(lambda tx: tx.web.get()).read

    def write(self, message_id: MessageId) -> None:
        self._store.run(lambda tx: tx.web.put(WebState(message_id)))


class ReadMark:
    """The read mark. It only moves forward, so a slow tab does not make messages unread."""

    def __init__(
        self, kept: KeptMark, reception: ChatService, send: Callable[[Json], None]
    ) -> None:
        self._kept = kept
        self._reception = reception
        self._send = send
        self._one_at_a_time = asyncio.Lock()
        self.last: MessageId | None = None

    async def load(self) -> None:
        self.last = await asyncio.to_thread(self._kept.read)

    async def move(self, message_id: MessageId) -> None:
        async with self._one_at_a_time:
            if message_id != self.last and await self._compare_with_last(message_id):
                await asyncio.to_thread(self._kept.write, message_id)
                self.last = message_id
                self._send(read_frame(message_id))

    async def _compare_with_last(self, message_id: MessageId) -> bool:
        """True if the message comes after the mark. Raises `RequestRefused` if there is none."""
        wanted = await self._reception.place_of(message_id)
        if wanted is None:
            raise RequestRefused(404, frames.NO_MESSAGE)
        last = None if self.last is None else await self._reception.place_of(self.last)
        return last is None or wanted > last
