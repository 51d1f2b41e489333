"""After a lost answer the service is asked; what it does not know is not repeated, but told."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from devtools.doubles.channel import DeliveryFault
from tests.conversation.delivery_scene import (
    DeliveryScene,
    RunningDelivery,
    ping,
    run_of,
    service_scene,
    with_a_token,
)

from ollim_bot.domain.runs import RunKind
from ollim_bot.errors import DeliveryFailed

BACKGROUND = run_of(RunKind.BACKGROUND)
LOST = [DeliveryFault.REQUEST_LOST, DeliveryFault.ANSWER_LOST]
TOLD = "I cannot tell whether this arrived on Discord: “ping 7”. It is on the page."

pytestmark = pytest.mark.usefixtures("inline_executor")


async def begin(scene: DeliveryScene, outbox: RunningDelivery) -> None:
    """Send it, and wait as long as the agent does."""
    sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
    await scene.until(sending.done)
    assert sending.result()


@pytest.mark.parametrize("mishap", LOST)
async def test_a_lost_answer_is_asked_for_again_under_the_same_nonce(mishap: DeliveryFault) -> None:
    scene, service, _ = service_scene()
    service.faults.append(mishap)
    async with scene.running() as outbox:
        await begin(scene, outbox)
    assert service.texts == ["ping 7"]
    assert (service.tries, service.readings) == (2, 0)
    assert (scene.waiting, scene.told, scene.spent) == ([], {}, (1, 1, 0))


@pytest.mark.parametrize("mishap", LOST)
@pytest.mark.parametrize("how", ["the machine sleeps", "the clock is set back", "the bot restarts"])
async def test_what_the_service_may_have_forgotten_is_read_back_first(
    mishap: DeliveryFault, how: str
) -> None:
    scene, service, time = service_scene(remembers=timedelta(minutes=3))
    service.faults.append(mishap)
    async with scene.running() as outbox:
        sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
        await scene.until(lambda: service.tries)
        match how:
            case "the machine sleeps":
                scene.clock.jump(1000)
                time.asleep += 1000
            case "the clock is set back":
                scene.clock.jump(-86400)
                time.asleep += 1000
            case "the bot restarts":
                time.asleep += 1000
                sending.cancel()
        if how != "the bot restarts":
            await scene.until(lambda: not scene.waiting)
    async with scene.running():
        await scene.until(lambda: not scene.waiting)
    await asyncio.gather(sending, return_exceptions=True)
    assert service.texts == ["ping 7"]
    assert service.readings == 1
    assert (scene.told, scene.spent) == ({}, (1, 1, 0))


@pytest.mark.parametrize("mishap", LOST)
@pytest.mark.parametrize("reason", ["nobody may read", "too much came after it"])
async def test_what_cannot_be_known_is_not_repeated_and_told_once(
    mishap: DeliveryFault, reason: str
) -> None:
    scene, service, time = service_scene()
    service.faults.append(mishap)
    async with scene.running() as outbox:
        sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
        await scene.until(lambda: service.tries)
        scene.clock.jump(1000)
        time.asleep += 1000
        service.is_hidden = reason == "nobody may read"
        service.add_foreign(30)
        service.reach = 20
        await scene.until(lambda: scene.told)
        assert await sending
    service.is_hidden, service.reach = False, None
    async with scene.running():
        await scene.clock.advance(600)
    assert service.texts == (["ping 7"] if mishap is DeliveryFault.ANSWER_LOST else [])
    assert service.tries == 1
    assert list(scene.told.values()) == [TOLD]
    assert (scene.waiting, scene.untold) == ([], [])
    assert scene.budget.daily_used == 1, "it may have been seen, so it was paid for"
    assert [each.text for each in scene.log] == ["ping 7"]


async def test_a_reading_that_fails_for_a_while_gives_nothing_up() -> None:
    scene, service, time = service_scene()
    service.faults.append(DeliveryFault.ANSWER_LOST)
    async with scene.running() as outbox:
        sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
        await scene.until(lambda: service.tries)
        scene.clock.jump(1000)
        time.asleep += 1000
        service.is_hidden = True
        await scene.until(lambda: service.readings == 7)
        service.is_hidden, service.is_down = False, True
        await scene.clock.advance(4 * 3600)
        service.is_down = False
        await scene.until(lambda: not scene.waiting)
        assert await sending
    assert service.texts == ["ping 7"]
    assert scene.told == {}


async def test_a_refusal_says_nothing_about_the_try_before_it() -> None:
    scene, service, _ = service_scene()
    service.faults.append(DeliveryFault.ANSWER_LOST)
    async with scene.running() as outbox:
        sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
        await scene.until(lambda: service.tries == 1)
        service.refusal = "Your direct messages are closed."
        await scene.until(sending.done)
        assert sending.result()
    assert service.texts == ["ping 7"]
    assert (scene.waiting, scene.told, scene.spent) == ([], {}, (1, 1, 0))


async def test_a_refusal_after_a_try_that_brought_nothing_gives_the_token_back() -> None:
    scene, service, _ = service_scene()
    service.faults.append(DeliveryFault.REQUEST_LOST)
    async with scene.running() as outbox:
        sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
        await scene.until(lambda: service.tries == 1)
        service.refusal = "Your direct messages are closed."
        await scene.until(sending.done)
        with pytest.raises(DeliveryFailed, match="are closed"):
            sending.result()
    assert service.texts == []
    assert scene.budget.daily_used == 0
    assert len(scene.told) == 1


async def test_a_try_that_arrives_after_the_second_one_is_known_by_its_nonce() -> None:
    scene, service, _ = service_scene()
    service.faults.append(DeliveryFault.LATE)
    async with scene.running() as outbox:
        await begin(scene, outbox)
    service.deliver_late()
    assert service.texts == ["ping 7"]


async def test_another_message_with_the_same_words_is_not_taken_for_it() -> None:
    scene, service, time = service_scene()
    async with scene.running() as outbox:
        await begin(scene, outbox)
        same = replace(ping(8), text="ping 7")
        service.faults.append(DeliveryFault.REQUEST_LOST)
        sending = asyncio.create_task(outbox.send(same, BACKGROUND, with_a_token))
        await scene.until(lambda: service.tries == 2)
        scene.clock.jump(1000)
        time.asleep += 1000
        await scene.until(lambda: not scene.waiting)
        assert await sending
    assert service.texts == ["ping 7", "ping 7"]
    assert service.readings == 1
    assert [scene.refs(each.id) for each in scene.log] == [(each.id,) for each in service.history]


async def test_what_was_never_handed_over_needs_no_reading_after_a_restart() -> None:
    scene, service, _ = service_scene()
    service.is_down = service.is_hidden = True
    async with scene.running() as outbox:
        await begin(scene, outbox)
        later = asyncio.create_task(outbox.send(ping(8), BACKGROUND, with_a_token))
        await scene.until(later.done)
    service.is_down = False
    async with scene.running():
        await scene.until(lambda: not scene.waiting)
    assert service.texts == ["ping 7", "ping 8"]
    assert (service.readings, scene.told) == (0, {})


@pytest.mark.parametrize(("ahead", "set_back"), [(3000.0, 0.0), (86400.0, -86400.0)])
async def test_a_clock_that_was_wrong_hides_nothing_that_has_arrived(
    ahead: float, set_back: float
) -> None:
    scene, service, time = service_scene()
    scene.clock.jump(ahead)
    service.faults.append(DeliveryFault.ANSWER_LOST)
    async with scene.running() as outbox:
        sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
        await scene.until(lambda: service.tries)
    sending.cancel()
    scene.clock.jump(set_back + 1000)
    time.asleep += 1000
    service.add_foreign(30)
    async with scene.running():
        await scene.until(lambda: not scene.waiting)
    await asyncio.gather(sending, return_exceptions=True)
    assert service.texts == ["ping 7"]
    assert scene.told == {}


async def test_a_reading_that_is_never_answered_is_asked_for_again() -> None:
    scene, service, time = service_scene()
    service.faults.append(DeliveryFault.ANSWER_LOST)
    async with scene.running() as outbox:
        sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
        await scene.until(lambda: service.tries)
        scene.clock.jump(1000)
        time.asleep += 1000
        service.may_answer.clear()
        await scene.clock.advance(3600)
        assert service.readings > 8
        assert (scene.waiting, scene.told) == ([ping().id], {})
        service.may_answer.set()
        await scene.until(lambda: not scene.waiting)
        assert await sending
    assert service.texts == ["ping 7"]
