"""A machine that was frozen sends nothing when it wakes, and another one sends it once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import closing, suppress
from datetime import UTC

import pytest
from devtools.doubles.channel import FakeChatService
from devtools.doubles.clock import ManualClock
from tests.kernel.store.scene import NOW
from tests.postgres.test_lease import expire
from tests.virtual_loop import LoopClock, VirtualTimeLoop

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.conversation.delivery import DeliveryQueue
from ollim_bot.kernel.store.backend import Sharing
from ollim_bot.kernel.store.database_errors import NotLeading
from ollim_bot.kernel.store.store import DatabaseStore
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot_standby.postgres.connection import Address
from ollim_bot_standby.postgres.database import open_postgres
from ollim_bot_standby.postgres.lease import Lease

PILL = ChatMessage(MessageId("1001"), NOW, Author.BACKGROUND, "Take the pill.")


@pytest.fixture(scope="module", autouse=True)
def _loop_of_before() -> None:
    """What all virtual loops share stays open after the first one."""
    VirtualTimeLoop().close()


def add_pill(tx: Transaction) -> None:
    tx.channels.join("discord", "owner-1")
    tx.messages.add(PILL)
    tx.deliveries.require("discord", PILL.id, (), None)


async def deliver(
    address: Address, lease: Lease, may_act: Callable[[], bool], service: FakeChatService
) -> None:
    """Send what is open until it has arrived."""
    clock = LoopClock(UTC)
    rows = open_postgres(address, lambda: NOW, lease=lease.held)
    rows.sharing = Sharing(may_act=may_act)
    store = DatabaseStore(rows, clock)
    queue = asyncio.create_task(DeliveryQueue(store, service, clock).run())
    try:
        with store.changes("deliveries") as changed:
            while await store.read(lambda tx: tx.deliveries.open("discord", 9)):
                await changed.wait()
                changed.clear()
    finally:
        queue.cancel()
        await store.close()


def run_process(work: Coroutine[None, None, None]) -> None:
    """Run it as a process of its own would: it may end with `SystemExit`."""
    loop = VirtualTimeLoop()
    try:
        loop.run_until_complete(work)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        while left := asyncio.all_tasks(loop):
            with suppress(SystemExit):  # each task that was in a step ends with it
                loop.run_until_complete(asyncio.wait(left))
        loop.close()


def test_a_machine_that_was_frozen_between_the_claim_and_the_send_sends_nothing(
    address: Address,
) -> None:
    boot = {"desk": 100.0}
    with (
        closing(Lease(address, "desk", lambda: boot["desk"])) as desk,
        closing(Lease(address, "shelf", lambda: 7.0)) as shelf,
    ):
        desk.take()
        with closing(open_postgres(address, lambda: NOW, lease=desk.held)) as database:
            database.run(add_pill)
        tries: list[int] = []

        def freeze() -> bool:
            """The try is committed, and then the machine stands still for a minute."""
            with closing(open_postgres(address, lambda: NOW, lease=None)) as reader:
                found = reader.query(lambda tx: tx.deliveries.open("discord", 9))
                tries.extend(each.tries for each in found)
            boot["desk"] += 60.0
            expire(address)
            assert shelf.take() is not None
            return desk.may_act()

        service = FakeChatService(ManualClock(NOW))
        with pytest.raises(NotLeading):
            run_process(deliver(address, desk, freeze, service))
        assert (tries, service.texts) == ([1], [])
        run_process(deliver(address, shelf, shelf.may_act, service))
        assert service.texts == ["Take the pill."]
        assert service.readings == 1, "it was looked up first, as after a crash"
