"""A ping on a full disk is refused and costs nothing, or waits; it never arrives twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from devtools.doubles.channel import FakeChatService
from devtools.doubles.repeating_store import RepeatingStore
from tests.conversation.crashing import StepCounter
from tests.conversation.delivery_scene import (
    DeliveryScene,
    ping,
    run_of,
    service_scene,
    with_a_token,
)

from ollim_bot.domain.runs import RunKind
from ollim_bot.errors import NotStored, WriteFailed

REFUSAL = "Your direct messages are closed."

pytestmark = pytest.mark.usefixtures("inline_executor")


class FullDisk(StepCounter):
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


def is_settled(scene: DeliveryScene) -> bool:
    return not scene.waiting and not scene.untold


async def send(scene: DeliveryScene, disk: FullDisk, *, makes_room: bool) -> bool:
    """One run with one ping; gives whether it was accepted. Room comes in that run or after it."""
    async with scene.running(disk) as outbox:
        await scene.clock.advance(0)
        disk.has_begun = True
        sending = asyncio.create_task(outbox.send(ping(), run_of(RunKind.BACKGROUND), with_a_token))
        await scene.until(lambda: sending.done() or not scene.store.is_writable)
        await scene.until(lambda: is_settled(scene) or not scene.store.is_writable)
        await scene.clock.advance(60)
        if makes_room:
            disk.make_room()
            await scene.until(lambda: sending.done() and is_settled(scene))
        sending.cancel()
        [outcome] = await asyncio.gather(sending, return_exceptions=True)
    disk.make_room()
    return not isinstance(outcome, NotStored)


def check(scene: DeliveryScene, service: FakeChatService, where: str, *, is_accepted: bool) -> None:
    assert is_settled(scene), where
    if not is_accepted:
        assert (scene.texts, service.texts, scene.spent, scene.recorded) == (
            [],
            [],
            (0, 0, 0),
            [],
        ), where
        assert scene.told == {}, where
    elif service.refusal:
        assert (service.texts, scene.budget.daily_used, len(scene.told)) == ([], 0, 1), where
    else:
        assert (scene.texts, service.texts) == (["ping 7"], ["ping 7"]), where
        assert (scene.spent, scene.told) == ((1, 1, 0), {}), where
        assert [scene.refs(each.id) for each in scene.log] == [(service.history[0].id,)], where


async def writes_of_a_ping(refusal: str) -> int:
    scene, service, _ = service_scene()
    disk = FullDisk(scene.store)
    service.refusal = refusal
    assert await send(scene, disk, makes_room=True)
    return disk.writes


@pytest.mark.parametrize("refusal", ["", REFUSAL])
@pytest.mark.parametrize("makes_room", [True, False], ids=["room", "a restart"])
async def test_wherever_the_disk_is_full_a_ping_is_refused_or_comes_once_with_its_cost(
    refusal: str, *, makes_room: bool
) -> None:
    number = await writes_of_a_ping(refusal)
    accepted = []
    for full_at in range(1, number + 1):
        scene, service, _ = service_scene()
        service.refusal = refusal
        accepted.append(await send(scene, FullDisk(scene.store, full_at), makes_room=makes_room))
        for _ in range(2):
            async with scene.running():
                await scene.until(lambda: is_settled(scene))  # noqa: B023  # it ends with the round
        check(scene, service, f"full at write {full_at} of {number}", is_accepted=accepted[-1])
    assert accepted == [False] + [True] * (number - 1)
    assert number > 3


async def test_what_cannot_be_noted_is_not_handed_over_until_it_can() -> None:
    scene, service, _ = service_scene()
    disk = FullDisk(scene.store, 2)
    async with scene.running(disk) as outbox:
        await scene.clock.advance(0)
        disk.has_begun = True
        sending = asyncio.create_task(outbox.send(ping(), run_of(RunKind.BACKGROUND), with_a_token))
        await scene.until(lambda: not scene.store.is_writable)
        await scene.clock.advance(60)
        assert (service.tries, scene.waiting) == (0, [ping().id])
        disk.make_room()
        await scene.until(lambda: sending.done() and not scene.waiting)
    assert service.texts == ["ping 7"]
    assert scene.spent == (1, 1, 0)


async def test_a_ping_that_finds_no_space_costs_nothing_and_the_next_one_can_be_sent() -> None:
    scene = DeliveryScene()
    disk = FullDisk(scene.store, 1)
    async with scene.running(disk) as outbox:
        await scene.clock.advance(0)
        disk.has_begun = True
        with pytest.raises(NotStored, match="No space left"):
            await outbox.send(ping(1), run_of(RunKind.BACKGROUND), with_a_token)
        assert (scene.texts, scene.spent, scene.surfaces[-1].texts) == ([], (0, 0, 0), [])
        disk.make_room()
        assert await outbox.send(ping(2), run_of(RunKind.BACKGROUND), with_a_token)
    assert scene.texts == ["ping 2"]
    assert scene.spent == (1, 1, 0)
