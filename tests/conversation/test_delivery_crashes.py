"""Wherever the bot crashes during a delivery, the message is neither lost nor doubled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from copy import copy
from typing import Self

import pytest
from tests.conversation.crashing import CrashRecorder, StepCounter
from tests.conversation.delivery_scene import (
    DeliveryScene,
    ServiceClock,
    ping,
    run_of,
    service_scene,
    with_a_token,
)

from ollim_bot.domain.runs import RunKind
from ollim_bot.testing.channel import DeliveryFault, FakeChatService

FORGOTTEN = 1000.0

pytestmark = pytest.mark.usefixtures("inline_executor")


def is_well(_: FakeChatService) -> None: ...


def loses_answers(service: FakeChatService) -> None:
    service.faults.extend([DeliveryFault.ANSWER_LOST] * 2)


def loses_requests(service: FakeChatService) -> None:
    service.faults.append(DeliveryFault.REQUEST_LOST)


def refuses(service: FakeChatService) -> None:
    service.refusal = "Your direct messages are closed."


def hides(service: FakeChatService) -> None:
    service.is_hidden = True


Behaviour = Callable[[FakeChatService], None]


class RestartedDelivery:
    """One ping through several runs; between them the service may forget its nonces.

    A ping is longer than 4 characters: with `longest=4` it is sent in two parts.
    """

    def __init__(self, behaviour: Behaviour, *, pause: float = 0.0, longest: int = 9) -> None:
        self.scene, self.service, self._service_clock = service_scene(longest=longest)
        self._parts = [part.text for part in self.service.parts(ping())]
        self._pause = pause
        behaviour(self.service)

    def copied(self) -> Self:
        copied = copy(self)
        clock = self.scene.clock.copied()
        copied._service_clock = ServiceClock(clock, self._service_clock.asleep)
        copied.service = self.service.copied(copied._service_clock)
        store, told = self.scene.store.copied(), {**self.scene.told}
        copied.scene = DeliveryScene([copied.service], clock, store, told=told)
        return copied

    def kept(self) -> tuple[object, ...]:
        service = self.service
        times = self.scene.clock.now(), self._service_clock.now()
        return self.scene.store.content(), service.history, service.faults, self.scene.told, times

    async def run(self, counter: StepCounter, *, sends: bool = False) -> None:
        sending: list[asyncio.Task[bool]] = []
        async with self.scene.running(counter) as outbox:
            if sends:
                send = outbox.send(ping(), run_of(RunKind.BACKGROUND), with_a_token)
                sending.append(asyncio.create_task(send))
            await self.scene.until(lambda: self._is_over(sending), counter)
        await asyncio.gather(*sending, return_exceptions=True)
        self.pause()

    def pause(self) -> None:
        self.scene.clock.jump(self._pause)
        self._service_clock.asleep += self._pause

    async def crashes(self, *, sends: bool = False) -> Sequence[tuple[str, Self]]:
        """The delivery as a crash at each step of a run leaves it, after the pause."""
        recorder = CrashRecorder(self)
        await self.run(recorder, sends=sends)
        for _, left in recorder.crashes:
            left.pause()
        return recorder.crashes

    def _is_over(self, sending: list[asyncio.Task[bool]]) -> bool:
        is_sent = all(each.done() for each in sending)
        return is_sent and not self.scene.waiting and not self.scene.untold

    def check(self, where: str) -> None:
        """Nothing arrived twice, and cost, notice and references agree with the end of the ping."""
        scene, service = self.scene, self.service
        was_begun = bool(scene.log)
        used = scene.budget.daily_used
        assert (scene.waiting, scene.untold) == ([], []), where
        if not was_begun:
            assert (service.texts, used, scene.told) == ([], 0, {}), where
        elif service.refusal:
            assert (service.texts, used, len(scene.told)) == ([], 0, 1), where
        elif service.is_hidden and scene.told:
            assert service.texts in ([], self._parts), where
            assert (used, len(scene.told)) == (1, 1), where
        else:
            assert (service.texts, used, scene.told) == (self._parts, 1, {}), where
            known = {int(ping().id), *(int(each.id) for each in service.history)}
            assert {number for number, _, _ in scene.recorded} == known, where
            ids = tuple(each.id for each in service.history)
            assert [scene.refs(each.id) for each in scene.log] == [ids], where
        assert len(scene.log) <= 1, where


@pytest.mark.parametrize(
    ("behaviour", "pause", "longest"),
    [
        (is_well, 0.0, 9),
        (is_well, FORGOTTEN, 4),
        (loses_answers, 0.0, 9),
        (loses_answers, FORGOTTEN, 9),
        (loses_requests, FORGOTTEN, 9),
        (refuses, 0.0, 9),
        (hides, FORGOTTEN, 9),
    ],
)
async def test_a_crash_at_any_step_and_another_in_the_start_after_it(
    behaviour: Behaviour, pause: float, longest: int
) -> None:
    for first, once in await RestartedDelivery(behaviour, pause=pause, longest=longest).crashes(
        sends=True
    ):
        for second, twice in [*await once.crashes(), ("no crash", once)]:
            await twice.run(StepCounter())
            twice.check(f"{first}, then {second}")


async def test_the_steps_are_all_there() -> None:
    """If a step were left out, the test above would not crash there."""
    counter = StepCounter(only="before")
    await RestartedDelivery(refuses).run(counter, sends=True)
    assert counter.steps == [
        "before a step",
        "before a step",
        "before a step",
        "before a step",
        "before a step",
        "before a part is handed over",
        "before a step",
        "before it is told",
        "before a step",
    ], "joined twice, paid and posted, divided, tried, handed over, refused, told"


async def test_only_a_crash_that_leaves_it_open_makes_it_unsure() -> None:
    """A message that the service hides counts as delivered if its answer arrived."""
    delivery = RestartedDelivery(hides)
    await delivery.run(StepCounter(), sends=True)
    assert delivery.service.texts == ["ping 7"]
    assert delivery.scene.told == {}


async def test_without_a_service_nothing_is_handed_over() -> None:
    scene, counter = DeliveryScene(), StepCounter()
    async with scene.running(counter) as outbox:
        await outbox.send(ping(), run_of(RunKind.BACKGROUND), with_a_token)
    assert not [step for step in counter.steps if "handed" in step]
