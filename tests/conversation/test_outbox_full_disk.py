"""What cannot be sent for want of space is told, and costs nothing."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from pathlib import Path

import pytest
from tests.conversation.outbox_scene import Mailbag, far_bag, ping, run_of, with_a_token
from tests.storage.places import DataDirectory, QuickDisk

from ollim_bot.domain.runs import RunKind
from ollim_bot.errors import DeliveryFailed
from ollim_bot.stores import Stores
from ollim_bot.testing.chat_service import FakeChatService
from ollim_bot.testing.disks import SteppedDisk

BACKGROUND = run_of(RunKind.BACKGROUND)
OUTBOX, BUDGET, FORK_MESSAGES = "outbox.jsonl", "ping_budget.json", "fork_messages.json"
MESSAGES = "messages.jsonl"


class FullDisk:
    """No space for a file from its n-th change on, where `full` names both."""

    def __init__(self, root: Path) -> None:
        self.full: dict[str, int] = {}
        self._data = DataDirectory(root)
        self._changes: Counter[str] = Counter()

    def bag(self) -> Mailbag:
        return Mailbag(self.stores())

    def mended(self) -> Mailbag:
        self.full.clear()
        return self.bag()

    def stores(self) -> Stores:
        return self._data.open(SteppedDisk(QuickDisk(), self._before))

    def _before(self, step: str, path: Path) -> None:
        name = next((name for name in self.full if name in path.name), None)
        if name is None or step not in ("append", "write"):
            return
        self._changes[name] += 1
        if self._changes[name] >= self.full[name]:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def disk(tmp_path: Path) -> FullDisk:
    return FullDisk(tmp_path / "data")


@pytest.mark.parametrize("name", [OUTBOX, BUDGET, FORK_MESSAGES, MESSAGES])
async def test_a_ping_that_finds_no_space_was_not_sent_and_costs_nothing(
    disk: FullDisk, name: str
) -> None:
    bag = disk.bag()
    async with bag.life() as outbox:
        disk.full[name] = 1
        with pytest.raises(DeliveryFailed, match="No space left"):
            await outbox.send(ping(1), BACKGROUND, with_a_token)
        assert (bag.texts, bag.waiting) == ([], [])
        assert bag.spent == (0, 0, 0)
        assert bag.surfaces[-1].texts == []
    again = disk.mended()
    async with again.life() as outbox:
        assert again.texts == []
        assert await outbox.send(ping(2), BACKGROUND, with_a_token)
    assert again.texts == ["ping 2"]
    assert again.spent == (1, 1, 0)


async def test_what_was_seen_was_sent_although_that_could_not_be_written_down(
    disk: FullDisk,
) -> None:
    bag = disk.bag()
    async with bag.life() as outbox:
        disk.full[OUTBOX] = 2
        assert await outbox.send(ping(), BACKGROUND, with_a_token)
    again = disk.mended()
    async with again.life():
        assert again.waiting == []
    assert again.texts == ["ping 7"]
    assert again.spent == (1, 1, 0)


@pytest.mark.parametrize("name", [BUDGET, FORK_MESSAGES, MESSAGES])
async def test_what_can_neither_be_sent_nor_taken_back_is_sent_at_the_next_start(
    disk: FullDisk, name: str
) -> None:
    bag = disk.bag()
    async with bag.life() as outbox:
        disk.full |= {OUTBOX: 2, name: 1}
        assert await outbox.send(ping(), BACKGROUND, with_a_token)
    for _ in range(2):
        again = disk.mended()
        async with again.life():
            assert again.texts == ["ping 7"]
            assert again.spent == (1, 1, 0)
            assert len(again.recorded) == 1


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name", [FORK_MESSAGES, MESSAGES])
async def test_or_as_soon_as_there_is_space(disk: FullDisk, name: str) -> None:
    bag = disk.bag()
    async with bag.life() as outbox:
        disk.full |= {OUTBOX: 2, name: 1}
        assert await outbox.send(ping(), BACKGROUND, with_a_token)
        await bag.clock.advance(60)
        assert (bag.texts, bag.waiting) == ([], [ping().id])
        disk.full.clear()
        await bag.until(lambda: not bag.waiting)
        assert bag.texts == ["ping 7"]
        assert bag.spent == (1, 1, 0)


@pytest.mark.usefixtures("at_once")
async def test_and_then_it_is_delivered(disk: FullDisk) -> None:
    bag, service = far(disk)
    async with bag.life() as outbox:
        disk.full |= {OUTBOX: 2, MESSAGES: 1}
        assert await outbox.send(ping(), BACKGROUND, with_a_token)
        assert service.texts == []
        disk.full.clear()
        await bag.until(lambda: not bag.waiting)
        assert (bag.texts[0], service.texts) == ("ping 7", ["ping 7"])


@pytest.mark.usefixtures("at_once")
async def test_a_start_does_not_fail_for_a_message_that_still_finds_no_space(
    disk: FullDisk,
) -> None:
    bag = disk.bag()
    async with bag.life() as outbox:
        disk.full |= {OUTBOX: 2, MESSAGES: 1}
        await outbox.send(ping(), BACKGROUND, with_a_token)
    disk.full = {MESSAGES: 1}
    still_full = disk.bag()
    async with still_full.life():
        assert still_full.texts == []
        assert still_full.waiting == [ping().id]
        disk.full.clear()
        await still_full.until(lambda: not still_full.waiting)
        assert still_full.texts == ["ping 7"]


def far(disk: FullDisk) -> tuple[Mailbag, FakeChatService]:
    bag, service, _ = far_bag()
    bag.stores = disk.stores()
    return bag, service


async def restarted(disk: FullDisk, bag: Mailbag) -> None:
    disk.full.clear()
    bag.stores = disk.stores()
    async with bag.life():
        await bag.until(lambda: not bag.waiting and not bag.unsettled)


@pytest.mark.usefixtures("at_once")
async def test_what_cannot_be_noted_is_not_handed_over_until_it_can(disk: FullDisk) -> None:
    bag, service = far(disk)
    async with bag.life() as outbox:
        disk.full[OUTBOX] = 2
        sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
        await bag.until(sending.done)
        assert sending.result()
        assert outbox.is_on_its_way(ping().id)
        assert (service.tries, bag.waiting) == (0, [ping().id])
        disk.full.clear()
        await bag.until(lambda: not bag.waiting)
    assert service.texts == ["ping 7"]
    assert bag.spent == (1, 1, 0)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(("name", "change"), [(OUTBOX, 3), (FORK_MESSAGES, 2), (MESSAGES, 2)])
async def test_what_has_arrived_is_not_repeated_although_nothing_could_be_noted_of_it(
    disk: FullDisk, name: str, change: int
) -> None:
    bag, service = far(disk)
    async with bag.life() as outbox:
        disk.full[name] = change
        sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
        await bag.until(sending.done)
        assert sending.result()
        assert bag.waiting == [ping().id]
    await restarted(disk, bag)
    assert service.texts == ["ping 7"]
    assert [number for number, _, _ in bag.recorded] == [int(ping().id), 1001]
    assert [each.refs for each in bag.log] == [{"discord": "1001"}]
    assert (bag.spent, bag.told) == ((1, 1, 0), {})


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(("name", "change"), [(OUTBOX, 3), (BUDGET, 2)])
async def test_what_was_refused_is_given_back_once_when_that_can_be_noted(
    disk: FullDisk, name: str, change: int
) -> None:
    bag, service = far(disk)
    service.refusal = "Your direct messages are closed."
    async with bag.life() as outbox:
        disk.full[name] = change
        sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
        await bag.until(sending.done)
        await asyncio.gather(sending, return_exceptions=True)
    await restarted(disk, bag)
    await restarted(disk, bag)
    assert service.texts == []
    assert bag.stores.pings.read().daily_used == 0
    assert len(bag.told) == 1
