"""Wherever the bot dies on the way to a service, a message is neither lost nor doubled there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from copy import copy
from typing import Self

import pytest
from tests.conversation.delivery_scene import Mailbag, TrueTime, far_bag, ping, run_of, with_a_token
from tests.conversation.fate import Fate, Witness

from ollim_bot.domain.runs import RunKind
from ollim_bot.testing.channel import DeliveryFault, FakeChatService

FORGOTTEN = 1000.0

pytestmark = pytest.mark.usefixtures("at_once")


def is_well(_: FakeChatService) -> None: ...


def loses_answers(service: FakeChatService) -> None:
    service.faults.extend([DeliveryFault.ANSWER_LOST] * 2)


def loses_requests(service: FakeChatService) -> None:
    service.faults.append(DeliveryFault.REQUEST_LOST)


def refuses(service: FakeChatService) -> None:
    service.refusal = "Your direct messages are closed."


def hides(service: FakeChatService) -> None:
    service.is_hidden = True


Moods = Callable[[FakeChatService], None]


class Tale:
    """One ping through several lives; between them the service may forget its nonces.

    With `longest` of 4 it goes in two parts.
    """

    def __init__(self, mood: Moods, *, pause: float = 0.0, longest: int = 9) -> None:
        self.bag, self.service, self._time = far_bag(longest=longest)
        self._parts = [part.text for part in self.service.parts(ping())]
        self._pause = pause
        mood(self.service)

    def copied(self) -> Self:
        copied = copy(self)
        clock = self.bag.clock.copied()
        copied._time = TrueTime(clock, self._time.asleep)
        copied.service = self.service.copied(copied._time)
        store, told = self.bag.store.copied(), {**self.bag.told}
        copied.bag = Mailbag([copied.service], clock, store, told=told)
        return copied

    def kept(self) -> tuple[object, ...]:
        service = self.service
        times = self.bag.clock.now(), self._time.now()
        return self.bag.store.content(), service.history, service.faults, self.bag.told, times

    async def live(self, fate: Fate, *, sends: bool = False) -> None:
        sending: list[asyncio.Task[bool]] = []
        async with self.bag.life(fate) as outbox:
            if sends:
                send = outbox.send(ping(), run_of(RunKind.BACKGROUND), with_a_token)
                sending.append(asyncio.create_task(send))
            await self.bag.until(lambda: self._is_over(sending), fate)
        await asyncio.gather(*sending, return_exceptions=True)
        self.pause()

    def pause(self) -> None:
        self.bag.clock.jump(self._pause)
        self._time.asleep += self._pause

    async def deaths(self, *, sends: bool = False) -> Sequence[tuple[str, Self]]:
        """What a death at each step of a life leaves, after the pause."""
        witness = Witness(self)
        await self.live(witness, sends=sends)
        for _, left in witness.deaths:
            left.pause()
        return witness.deaths

    def _is_over(self, sending: list[asyncio.Task[bool]]) -> bool:
        is_sent = all(each.done() for each in sending)
        return is_sent and not self.bag.waiting and not self.bag.untold

    def check(self, where: str) -> None:
        """Whatever the service does, nothing is doubled, and each end has what belongs to it."""
        bag, service = self.bag, self.service
        was_begun = bool(bag.log)
        used = bag.budget.daily_used
        assert (bag.waiting, bag.untold) == ([], []), where
        if not was_begun:
            assert (service.texts, used, bag.told) == ([], 0, {}), where
        elif service.refusal:
            assert (service.texts, used, len(bag.told)) == ([], 0, 1), where
        elif service.is_hidden and bag.told:
            assert service.texts in ([], self._parts), where
            assert (used, len(bag.told)) == (1, 1), where
        else:
            assert (service.texts, used, bag.told) == (self._parts, 1, {}), where
            known = {int(ping().id), *(int(each.id) for each in service.history)}
            assert {number for number, _, _ in bag.recorded} == known, where
            ids = tuple(each.id for each in service.history)
            assert [bag.refs(each.id) for each in bag.log] == [ids], where
        assert len(bag.log) <= 1, where


@pytest.mark.parametrize(
    ("mood", "pause", "longest"),
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
    mood: Moods, pause: float, longest: int
) -> None:
    for first, once in await Tale(mood, pause=pause, longest=longest).deaths(sends=True):
        for second, twice in [*await once.deaths(), ("no crash", once)]:
            await twice.live(Fate())
            twice.check(f"{first}, then {second}")


async def test_the_steps_are_all_there() -> None:
    """If a step were left out, the test above would not crash there."""
    fate = Fate(only="before")
    await Tale(refuses).live(fate, sends=True)
    assert fate.steps == [
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
    """What the service hides is delivered all the same where nothing is in doubt."""
    tale = Tale(hides)
    await tale.live(Fate(), sends=True)
    assert tale.service.texts == ["ping 7"]
    assert tale.bag.told == {}


async def test_a_bag_without_a_service_takes_no_step_more() -> None:
    bag, fate = Mailbag(), Fate()
    async with bag.life(fate) as outbox:
        await outbox.send(ping(), run_of(RunKind.BACKGROUND), with_a_token)
    assert not [step for step in fate.steps if "handed" in step]
