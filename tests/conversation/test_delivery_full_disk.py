"""A ping on a full disk is refused and costs nothing, or waits; it never arrives twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.conversation.delivery_scene import Mailbag, far_bag, ping, run_of, with_a_token
from tests.conversation.fate import Fate

from ollim_bot.domain.runs import RunKind
from ollim_bot.errors import NotStored, WriteFailed
from ollim_bot.testing.channel import FakeChatService
from ollim_bot.testing.repeating_store import RepeatingStore

REFUSAL = "Your direct messages are closed."

pytestmark = pytest.mark.usefixtures("at_once")


class FullDisk(Fate):
    """Lets a store refuse every write from the chosen one on; the first is number 1."""

    def __init__(self, store: RepeatingStore, full_at: int | None = None) -> None:
        super().__init__()
        self.has_begun = False
        self.writes = 0
        self._store = store
        self._full_at = full_at

    def step(self, what: str) -> None:
        super().step(what)
        if self.has_begun and what.startswith("before a step"):
            self.writes += 1
            if self.writes == self._full_at:
                self._store.fail_with(WriteFailed(Path("ollim.db"), "No space left on device."))

    def make_room(self) -> None:
        self._store.fail_with(None)


def is_settled(bag: Mailbag) -> bool:
    return not bag.waiting and not bag.untold


async def send(bag: Mailbag, disk: FullDisk, *, makes_room: bool) -> bool:
    """One life with one ping; whether it was accepted. `makes_room` while that life goes on."""
    async with bag.life(disk) as life:
        await bag.clock.advance(0)
        disk.has_begun = True
        sending = asyncio.create_task(life.send(ping(), run_of(RunKind.BACKGROUND), with_a_token))
        await bag.until(lambda: sending.done() or not bag.store.is_writable)
        await bag.until(lambda: is_settled(bag) or not bag.store.is_writable)
        await bag.clock.advance(60)
        if makes_room:
            disk.make_room()
            await bag.until(lambda: sending.done() and is_settled(bag))
        sending.cancel()
        [outcome] = await asyncio.gather(sending, return_exceptions=True)
    disk.make_room()
    return not isinstance(outcome, NotStored)


def check(bag: Mailbag, service: FakeChatService, where: str, *, is_accepted: bool) -> None:
    assert is_settled(bag), where
    if not is_accepted:
        assert (bag.texts, service.texts, bag.spent, bag.recorded) == ([], [], (0, 0, 0), []), where
        assert bag.told == {}, where
    elif service.refusal:
        assert (service.texts, bag.budget.daily_used, len(bag.told)) == ([], 0, 1), where
    else:
        assert (bag.texts, service.texts) == (["ping 7"], ["ping 7"]), where
        assert (bag.spent, bag.told) == ((1, 1, 0), {}), where
        assert [bag.refs(each.id) for each in bag.log] == [(service.history[0].id,)], where


async def writes_of_a_ping(refusal: str) -> int:
    bag, service, _ = far_bag()
    disk = FullDisk(bag.store)
    service.refusal = refusal
    assert await send(bag, disk, makes_room=True)
    return disk.writes


@pytest.mark.parametrize("refusal", ["", REFUSAL])
@pytest.mark.parametrize("makes_room", [True, False], ids=["room", "a restart"])
async def test_wherever_the_disk_is_full_a_ping_is_refused_or_comes_once_with_its_cost(
    refusal: str, *, makes_room: bool
) -> None:
    number = await writes_of_a_ping(refusal)
    accepted = []
    for full_at in range(1, number + 1):
        bag, service, _ = far_bag()
        service.refusal = refusal
        accepted.append(await send(bag, FullDisk(bag.store, full_at), makes_room=makes_room))
        for _ in range(2):
            async with bag.life():
                await bag.until(lambda: is_settled(bag))  # noqa: B023  # it ends with the round
        check(bag, service, f"full at write {full_at} of {number}", is_accepted=accepted[-1])
    assert accepted == [False] + [True] * (number - 1)
    assert number > 3


async def test_what_cannot_be_noted_is_not_handed_over_until_it_can() -> None:
    bag, service, _ = far_bag()
    disk = FullDisk(bag.store, 2)
    async with bag.life(disk) as life:
        await bag.clock.advance(0)
        disk.has_begun = True
        sending = asyncio.create_task(life.send(ping(), run_of(RunKind.BACKGROUND), with_a_token))
        await bag.until(lambda: not bag.store.is_writable)
        await bag.clock.advance(60)
        assert (service.tries, bag.waiting) == (0, [ping().id])
        disk.make_room()
        await bag.until(lambda: sending.done() and not bag.waiting)
    assert service.texts == ["ping 7"]
    assert bag.spent == (1, 1, 0)


async def test_a_ping_that_finds_no_space_costs_nothing_and_the_next_one_can_be_sent() -> None:
    bag = Mailbag()
    disk = FullDisk(bag.store, 1)
    async with bag.life(disk) as life:
        await bag.clock.advance(0)
        disk.has_begun = True
        with pytest.raises(NotStored, match="No space left"):
            await life.send(ping(1), run_of(RunKind.BACKGROUND), with_a_token)
        assert (bag.texts, bag.spent, bag.surfaces[-1].texts) == ([], (0, 0, 0), [])
        disk.make_room()
        assert await life.send(ping(2), run_of(RunKind.BACKGROUND), with_a_token)
    assert bag.texts == ["ping 2"]
    assert bag.spent == (1, 1, 0)
