"""A message counts as delivered when the service has given it an id: once, and in order."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from devtools.doubles.channel import ChannelContract, DeliveryFault, FakeChatService
from devtools.doubles.clock import ManualClock
from tests.conversation.crashing import StepCounter
from tests.conversation.delivery_scene import (
    FORK,
    PARENT,
    DeliveryScene,
    RunningDelivery,
    ping,
    run_of,
    service_scene,
    with_a_token,
)
from tests.conversation.scene import NOW

from ollim_bot.domain.chat import Author, ChatMessage, numbered_id
from ollim_bot.domain.forks import ForkStatus, lookup_fork_session
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.runs import RunKind
from ollim_bot.errors import DeliveryFailed
from ollim_bot.ports import Channel
from ollim_bot.tools.context import Arrival

BACKGROUND = run_of(RunKind.BACKGROUND)

pytestmark = pytest.mark.usefixtures("inline_executor")


class TestFarService(ChannelContract):
    def make(self) -> Channel:
        return FakeChatService(ManualClock(NOW))


def said(number: int, text: str) -> ChatMessage:
    return ChatMessage(numbered_id(NOW, number), NOW, Author.BACKGROUND, text)


async def sent(scene: DeliveryScene, outbox: RunningDelivery, *messages: ChatMessage) -> list[bool]:
    """Send them one after the other, without waiting for any."""
    sending = [
        asyncio.create_task(outbox.send(each, BACKGROUND, with_a_token)) for each in messages
    ]
    await scene.until(lambda: all(each.done() for each in sending))
    return [each.result() for each in sending]


async def test_a_ping_is_on_the_page_then_handed_over_and_confirmed_by_its_id() -> None:
    scene, service, _ = service_scene()
    counter = StepCounter()
    async with scene.running(counter) as outbox:
        counter.steps.clear()
        assert await sent(scene, outbox, ping()) == [True]
    after = [step for step in counter.steps if step.startswith("after")]
    arrived = after.index("after a part was handed over")
    [confirmed] = after[arrived + 1 :]
    assert "deliveries, fork_messages" in confirmed, "all that follows from it is one step"
    [arrival] = service.history
    assert arrival.text == "ping 7"
    assert scene.surfaces[-1].texts == ["ping 7"]
    assert [scene.refs(each.id) for each in scene.log] == [(arrival.id,)]
    assert (scene.waiting, scene.spent, scene.told) == ([], (1, 1, 0), {})


async def test_a_reply_finds_the_session_by_our_number_and_by_those_of_the_service() -> None:
    scene, service, _ = service_scene(longest=4)
    async with scene.running() as outbox:
        await sent(scene, outbox, ping())
    numbers = [int(ping().id), *(int(each.id) for each in service.history)]
    assert scene.recorded == [(number, FORK, PARENT) for number in numbers]
    known = scene.store.run(lambda tx: tx.fork_messages.get())
    for number in numbers:
        assert lookup_fork_session(known, number, NOW.timestamp()).status is ForkStatus.LIVE


async def test_a_long_message_arrives_in_parts_each_under_a_nonce_of_its_own() -> None:
    scene, service, _ = service_scene(longest=3)
    async with scene.running() as outbox:
        assert await sent(scene, outbox, said(1, "abcabcabcab"), said(2, "xyz")) == [True, True]
    assert service.texts == ["abc", "abc", "abc", "ab", "xyz"]
    nonces = {each.nonce for each in service.history}
    assert len(nonces) == 5
    assert {len(nonce) for nonce in nonces} == {24}
    first = scene.refs(scene.log[0].id)
    assert list(first) == [each.id for each in service.history[:4]]


async def test_messages_arrive_in_the_order_in_which_they_were_sent() -> None:
    scene, service, _ = service_scene()
    service.faults.extend(
        [DeliveryFault.REQUEST_LOST, DeliveryFault.ANSWER_LOST, DeliveryFault.NONE] * 3
    )
    async with scene.running() as outbox:
        await sent(scene, outbox, *(said(number, f"{number}") for number in range(5)))
        await scene.until(lambda: not scene.waiting)
    assert service.texts == ["0", "1", "2", "3", "4"]
    assert [each.text for each in scene.log] == service.texts


async def test_what_must_come_waits_for_the_rest_of_one_message_at_most() -> None:
    scene, service, _ = service_scene(longest=3)
    service.is_down = True
    async with scene.running() as outbox:
        dose = replace(said(4, "dose"), must=True)
        quoting = said(3, '"must": true')
        await sent(scene, outbox, said(1, "abcdef"))
        await sent(scene, outbox, said(2, "uvwxyz"), quoting, dose)
        service.is_down = False
        await scene.until(lambda: not scene.waiting)
    assert service.texts == ["abc", "def", "dos", "e", "uvw", "xyz", '"mu', 'st"', ": t", "rue"]


async def test_a_message_that_is_refused_costs_nothing_and_both_are_told() -> None:
    scene, service, _ = service_scene()
    service.refusal = "Your direct messages are closed."
    async with scene.running() as outbox:
        with pytest.raises(DeliveryFailed, match="direct messages are closed"):
            await sent(scene, outbox, ping())
        service.refusal = ""
        assert await sent(scene, outbox, ping(8)) == [True]
    assert service.texts == ["ping 8"]
    assert scene.spent == (1, 1, 0)
    why = "(Your direct messages are closed). It is on the page."
    assert list(scene.told.values()) == [f"This did not arrive on Discord: “ping 7” {why}"]
    assert (scene.waiting, scene.untold) == ([], [])


async def test_who_sends_is_not_kept_waiting_by_a_service_that_does_not_answer() -> None:
    scene, service, _ = service_scene()
    service.is_down = True
    async with scene.running() as outbox:
        sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
        await scene.clock.advance(9.9)
        assert not sending.done()
        await scene.clock.advance(0.1)
        assert sending.done()
        assert await sending
        assert outbox.arrival is Arrival.ON_ITS_WAY
        assert scene.waiting == [ping().id]
        service.is_down = False
        await scene.until(lambda: not scene.waiting)
    assert service.texts == ["ping 7"]
    assert (scene.waiting, scene.spent) == ([], (1, 1, 0))


async def test_a_service_that_is_away_for_hours_is_asked_ever_less_and_loses_nothing() -> None:
    scene, service, _ = service_scene()
    service.is_down = True
    async with scene.running() as outbox:
        await sent(scene, outbox, ping(1), ping(2))
        await scene.clock.advance(4 * 3600)
        assert service.tries <= 10 + 4 * 60
        service.is_down, service.is_hidden = False, True
        await scene.clock.advance(61)
    assert service.texts == ["ping 1", "ping 2"]
    assert scene.told == {}


async def test_a_slow_service_doubles_nothing_and_is_heard_in_the_end() -> None:
    scene, service, _ = service_scene()
    service.may_answer.clear()
    async with scene.running() as outbox:
        assert await sent(scene, outbox, ping(1), ping(2)) == [True, True]
        await scene.clock.advance(90)
        assert service.texts == ["ping 1"]
        assert service.tries > 1, "the wait has an end"
        service.may_answer.set()
        await scene.until(lambda: not scene.waiting)
    assert service.texts == ["ping 1", "ping 2"]


@pytest.mark.parametrize("fault", [DeliveryFault.FAULT, DeliveryFault.BROKEN_OFF])
async def test_a_channel_with_a_fault_holds_nothing_up_and_doubles_nothing(
    fault: DeliveryFault,
) -> None:
    scene, service, _ = service_scene()
    service.faults.append(fault)
    async with scene.running() as outbox:
        assert await sent(scene, outbox, ping(1), ping(2)) == [True, True]
        await scene.until(lambda: not scene.waiting)
    assert service.texts == ["ping 1", "ping 2"]


async def test_the_same_message_is_delivered_once_however_often_it_is_sent() -> None:
    scene, service, _ = service_scene()
    service.is_down = True
    async with scene.running() as outbox:
        await sent(scene, outbox, ping(), ping())
        service.is_down = False
        await scene.until(lambda: not scene.waiting)
        await sent(scene, outbox, ping())
    assert service.texts == ["ping 7"]
    assert scene.spent == (1, 1, 0)


async def test_what_waits_for_a_service_that_is_given_up_stands_on_the_page() -> None:
    scene, service, _ = service_scene()
    service.is_down = True
    async with scene.running() as outbox:
        await sent(scene, outbox, ping())
    scene.services.clear()
    async with scene.running():
        assert scene.waiting == []
    assert [each.id for each in scene.log] == [MessageId(ping().id)]
