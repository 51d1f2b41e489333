"""Wherever the bot crashes during a delivery, the message is neither lost nor doubled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from copy import copy
from pathlib import Path
from typing import Any, Self

import pytest
from devtools.doubles.channel import DeliveryFault, FakeChatService
from tests.crashes.matrix import Scenario, crash_at_every_step, rows_of
from tests.kernel.conversation.crashing import StepCounter
from tests.kernel.conversation.delivery_scene import (
    DeliveryScene,
    ServiceClock,
    as_critical,
    for_nothing,
    ping,
    run_of,
    service_scene,
    with_a_token,
)

from ollim_bot.kernel.tools.tool_context import Payment
from ollim_bot.kernel.values.runs import RunKind

FORGOTTEN = 1000.0

pytestmark = pytest.mark.usefixtures("inline_executor")


class RestartedDelivery:
    """One ping through several runs; between them the service may forget its nonces.

    A ping is longer than 4 characters: with `longest=4` it is sent in two parts. It is paid for by
    `pay`, which spends `cost`.
    """

    def __init__(
        self,
        *,
        pause: float = 0.0,
        longest: int = 9,
        pay: Payment = with_a_token,
        cost: tuple[float, int, int] = (1, 1, 0),
    ) -> None:
        self.scene, self.service, self._service_clock = service_scene(longest=longest)
        self._parts = [part.text for part in self.service.parts(ping())]
        self._pause = pause
        self._pay, self._cost = pay, cost
        self._shown_before = 0
        self._is_restarted = False

    def copied(self) -> Self:
        copied = copy(self)
        clock = self.scene.clock.copied()
        copied._service_clock = ServiceClock(clock, self._service_clock.asleep)
        copied.service = self.service.copied(copied._service_clock)
        store, told = self.scene.store.copied(), {**self.scene.told}
        copied.scene = DeliveryScene([copied.service], clock, store, told=told)
        copied._shown_before = self._shown
        copied._is_restarted = True
        return copied

    def kept(self) -> Hashable:
        scene, service = self.scene, self.service
        arrived = tuple(service.history), tuple(service.faults), frozenset(scene.told.items())
        times = scene.clock.now(), self._service_clock.now()
        return rows_of(scene.store.content()), arrived, times

    async def run(self, counter: StepCounter) -> None:
        """The ping is sent in the first run; the others begin after a pause."""
        sending: list[asyncio.Task[bool]] = []
        if self._is_restarted:
            self.scene.clock.jump(self._pause)
            self._service_clock.asleep += self._pause
        async with self.scene.running(counter) as outbox:
            if not self._is_restarted:
                send = outbox.send(ping(), run_of(RunKind.BACKGROUND), self._pay)
                sending.append(asyncio.create_task(send))
            await self.scene.until(lambda: self._is_over(sending), counter)
        await asyncio.gather(*sending, return_exceptions=True)
        self._is_restarted = True

    @property
    def _shown(self) -> int:
        """How often the page has shown the ping."""
        return self._shown_before + sum(len(surface.texts) for surface in self.scene.surfaces)

    def _is_over(self, sending: list[asyncio.Task[bool]]) -> bool:
        is_sent = all(each.done() for each in sending)
        return is_sent and not self.scene.waiting and not self.scene.untold

    async def check(self) -> None:
        """Nothing arrived twice, and cost, notice and references agree with the end of the ping."""
        scene, service = self.scene, self.service
        was_begun = bool(scene.log)
        used = scene.spent
        assert (scene.waiting, scene.untold) == ([], [])
        if not was_begun:
            assert (service.texts, used, scene.told) == ([], (0, 0, 0), {})
        elif service.refusal:
            assert (service.texts, used, len(scene.told)) == ([], (0, 0, 0), 1)
        elif service.is_hidden and scene.told:
            assert service.texts in ([], self._parts)
            assert (used, len(scene.told)) == (self._cost, 1)
        else:
            assert (service.texts, used, scene.told) == (self._parts, self._cost, {})
            known = {int(ping().id), *(int(each.id) for each in service.history)}
            assert {number for number, _, _ in scene.recorded} == known
            ids = tuple(each.id for each in service.history)
            assert [scene.refs(each.id) for each in scene.log] == [ids]
        assert len(scene.log) <= 1
        assert self._shown <= 1


def loses_answers(service: FakeChatService) -> None:
    service.faults.extend([DeliveryFault.ANSWER_LOST] * 2)


def loses_requests(service: FakeChatService) -> None:
    service.faults.append(DeliveryFault.REQUEST_LOST)


def refuses(service: FakeChatService) -> None:
    service.refusal = "Your direct messages are closed."


def hides(service: FakeChatService) -> None:
    service.is_hidden = True


def scenario(
    behaves: Callable[[FakeChatService], None] = lambda _: None, **more: Any
) -> Scenario[RestartedDelivery]:
    async def begin(_: Path) -> RestartedDelivery:
        delivery = RestartedDelivery(**more)
        behaves(delivery.service)
        return delivery

    crosses = ["before a part is handed over", "after a step that changes deliveries"]
    return Scenario(begin, RestartedDelivery.check, crashes=2, crosses=crosses)


SCENARIOS = {
    "all is well": scenario(),
    "a critical ping": scenario(pay=as_critical, cost=(0, 0, 1)),
    "a ping that costs nothing": scenario(pay=for_nothing, cost=(0, 0, 0)),
    "a message of two parts": scenario(pause=FORGOTTEN, longest=4),
    "answers are lost": scenario(loses_answers),
    "answers are lost and forgotten": scenario(loses_answers, pause=FORGOTTEN),
    "a request is lost": scenario(loses_requests, pause=FORGOTTEN),
    "the service refuses": scenario(refuses),
    "the service hides what it has": scenario(hides, pause=FORGOTTEN),
}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_crash_at_any_step_and_another_in_the_start_after_it(
    tmp_path: Path, name: str
) -> None:
    await crash_at_every_step(SCENARIOS[name], tmp_path)


async def test_the_steps_are_all_there() -> None:
    """If a step were left out, the test above would not crash there."""
    counter, delivery = StepCounter(only="before"), RestartedDelivery()
    refuses(delivery.service)
    await delivery.run(counter)
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
    delivery = RestartedDelivery()
    hides(delivery.service)
    await delivery.run(StepCounter())
    assert delivery.service.texts == ["ping 7"]
    assert delivery.scene.told == {}


async def test_without_a_service_nothing_is_handed_over() -> None:
    scene, counter = DeliveryScene(), StepCounter()
    async with scene.running(counter) as outbox:
        await outbox.send(ping(), run_of(RunKind.BACKGROUND), with_a_token)
    assert not [step for step in counter.steps if "handed" in step]
