"""The delivery queues of all confirming channels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from ollim_bot.clock import wait_until_set
from ollim_bot.conversation.delivery import DeliveryQueue
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.ports import Clock
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

# The owner may reply to a message before the service has confirmed it, which can take as long as
# its rate limits need to recover.
_UNTIL_KNOWN = 10.0
_MOST_OPEN = 500

T = TypeVar("T")


class DeliveryQueues:
    """Runs one queue for each channel; no channel waits for another."""

    def __init__(self, store: Store, queues: Sequence[DeliveryQueue], clock: Clock) -> None:
        self._store = store
        self._queues = queues
        self._clock = clock

    async def load(self) -> None:
        """Join every channel to the log, and remove channels that are no longer configured."""
        names = {queue.name for queue in self._queues}

        def step(tx: Transaction) -> None:
            for each in tx.channels.all():
                if each.name not in names:
                    tx.channels.leave(each.name)
            for name in sorted(names):
                tx.channels.join(name, "")

        await self._store.transact(step)

    async def run(self) -> None:
        """Run all queues until cancelled."""
        tasks = [asyncio.create_task(queue.run()) for queue in self._queues]
        try:
            await asyncio.gather(*tasks)
            await asyncio.Event().wait()
        finally:
            for task in tasks:
                task.cancel()

    def nudge(self) -> None:
        """Have all queues retry now."""
        for queue in self._queues:
            queue.nudge()

    async def by_ref(self, channel: str, ref: str) -> ChatMessage | None:
        """The message with this id on a channel. Waits for a confirmation that may be under way."""

        def look(tx: Transaction) -> tuple[ChatMessage | None, bool]:
            found = tx.deliveries.by_ref(channel, ref)
            is_over = tx.deliveries.next_open(channel) is None
            return (None if found is None else found.message), is_over

        async def found() -> tuple[ChatMessage | None, bool] | None:
            message, is_over = await self._store.read(look)
            return None if message is None and not is_over else (message, True)

        answer = await until(self._store, self._clock, found, _UNTIL_KNOWN)
        return None if answer is None else answer[0]

    async def by_refs(self, channel: str, newest: int) -> Mapping[str, ChatMessage]:
        return await self._store.read(lambda tx: tx.deliveries.known_refs(channel, newest))

    async def caught_up(self, channel: str, within: float | None = None) -> None:
        """Return when every message that is in the log now was confirmed or given up there."""
        last = await self._store.read(lambda tx: tx.messages.last_seq())

        async def is_over() -> bool | None:
            first = await self._store.read(lambda tx: tx.deliveries.next_open(channel))
            return True if first is None or first.logged.seq > last else None

        await until(self._store, self._clock, is_over, within)

    async def settle(self, within: float) -> None:
        """Wait until every channel has caught up, at most `within` seconds."""
        await asyncio.gather(*(self.caught_up(each.name, within) for each in self._queues))


async def until(
    store: Store, clock: Clock, question: Callable[[], Awaitable[T | None]], within: float | None
) -> T | None:
    """Ask after each commit until there is an answer; None after `within` seconds."""
    ends_at = None if within is None else clock.monotonic() + within
    with store.changes() as has_changed:
        while True:
            has_changed.clear()
            answer = await question()
            left = None if ends_at is None else ends_at - clock.monotonic()
            if answer is not None or (left is not None and left <= 0):
                return answer
            await wait_until_set(has_changed, clock, left)
