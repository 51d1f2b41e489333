"""Any number of channels follow one log, and none waits for another."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from devtools.doubles.channel import FakeChatService
from devtools.doubles.clock import ManualClock
from tests.conversation.delivery_scene import (
    DeliveryScene,
    RunningDelivery,
    ping,
    run_of,
    with_a_token,
)
from tests.conversation.scene import NOW

from ollim_bot.domain.chat import OF_GREETING, Attachment, Author, ChatMessage
from ollim_bot.domain.ids import MessageId, TurnId
from ollim_bot.domain.runs import RunKind
from ollim_bot.errors import DeliveryFailed
from ollim_bot.store.deliveries import DeliveryState

BACKGROUND = run_of(RunKind.BACKGROUND)


def two() -> tuple[DeliveryScene, FakeChatService, FakeChatService]:
    clock = ManualClock(NOW)
    one, other = FakeChatService(clock, name="discord"), FakeChatService(clock, name="telegram")
    return DeliveryScene([one, other], clock), one, other


class Phone(FakeChatService):
    """Rings for what must come, and for nothing else."""

    def concerns(self, message: ChatMessage) -> bool:
        return message.must


def with_a_phone() -> tuple[DeliveryScene, FakeChatService, Phone]:
    scene, one, other = two()
    phone = Phone(scene.clock, name="phone")
    scene.services[scene.services.index(other)] = phone
    return scene, one, phone


def said(name: str, author: Author = Author.ASSISTANT, **more: object) -> ChatMessage:
    return ChatMessage(MessageId(name), NOW, author, name, **more)  # type: ignore[arg-type]


async def test_two_channels_and_the_page_show_every_message_once_and_in_order() -> None:
    scene, one, other = two()
    async with scene.running() as outbox:
        for number in range(3):
            assert await outbox.send(ping(number), BACKGROUND, with_a_token)
        await scene.until(lambda: not scene.waiting)
    assert one.texts == other.texts == scene.surfaces[-1].texts == ["ping 0", "ping 1", "ping 2"]
    assert scene.spent == (3, 3, 0)


async def test_a_channel_that_is_down_holds_up_neither_the_other_nor_the_page() -> None:
    scene, one, other = two()
    other.is_down = True
    async with scene.running() as outbox:
        assert await outbox.send(ping(), BACKGROUND, with_a_token)
        assert (one.texts, scene.surfaces[-1].texts) == (["ping 7"], ["ping 7"])
        other.is_down = False
        await scene.until(lambda: other.texts == ["ping 7"])


async def test_what_one_channel_refuses_costs_as_long_as_another_may_show_it() -> None:
    scene, one, other = two()
    one.refusal = "Your direct messages are closed."
    async with scene.running() as outbox:
        assert await outbox.send(ping(), BACKGROUND, with_a_token)
        await scene.until(lambda: not scene.waiting and not scene.untold)
    assert (other.texts, scene.spent[1], scene.told) == (["ping 7"], 1, {})


async def test_a_failure_is_told_unless_another_channel_brings_the_message_soon() -> None:
    scene, one, other = two()
    one.refusal, other.is_down = "It is closed.", True
    async with scene.running() as outbox:
        await outbox.poster.post(ping(1))
        await scene.clock.advance(40)
        assert (scene.told, len(scene.untold)) == ({}, 1)
        other.is_down = False
        await scene.until(lambda: other.texts == ["ping 1"] and not scene.untold)
        assert scene.told == {}
        other.is_down = True
        await outbox.poster.post(ping(2))
        await scene.until(lambda: scene.told)
        other.is_down = False
        await scene.until(lambda: not scene.waiting)
    assert [*scene.told.values()] == [
        "This did not arrive on Discord: “ping 2” (It is closed). It is on the page."
    ]


async def test_a_file_that_one_channel_refused_is_told_of_unless_the_message_must_come() -> None:
    file = Attachment("plan.pdf", "plan.pdf", "application/pdf", 9)
    for must in (True, False):
        scene, one, other = two()
        one.refusal = "It is too large."
        async with scene.running() as outbox:
            await outbox.poster.post(replace(ping(), attachments=(file,), must=must))
            await scene.until(lambda: other.texts and not scene.untold)  # noqa: B023
        assert bool(scene.told) is not must


async def test_what_its_only_channel_refuses_is_given_back_though_another_follows_the_log() -> None:
    scene, one, phone = with_a_phone()
    one.refusal = "It is closed."
    async with scene.running() as outbox:
        sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
        await scene.until(sending.done)
        with pytest.raises(DeliveryFailed, match="It is closed"):
            sending.result()
        await scene.until(lambda: not scene.untold)
    assert (phone.texts, scene.budget.daily_used, len(scene.told)) == ([], 0, 1)


async def test_what_does_not_concern_a_channel_is_no_part_of_what_it_missed() -> None:
    scene, one, phone = with_a_phone()
    phone.is_down = True
    async with scene.running() as outbox:
        await outbox.poster.post(replace(ping(1), must=True))
        await scene.clock.advance(1)
        await received(scene, outbox, said("from the page", Author.OWNER), "web", {})
        await outbox.poster.post(said("an answer"))
        await scene.until(lambda: len(one.texts) == 3)
    scene.clock.jump(timedelta(hours=2).total_seconds())
    phone.is_down = False
    async with scene.running():
        await scene.until(lambda: not scene.waiting)
    assert phone.texts == ["ping 1"]
    assert len(scene.log) == 3


async def test_what_all_channels_refuse_is_given_back_once() -> None:
    scene, one, other = two()
    one.refusal = other.refusal = "It is closed."
    async with scene.running() as outbox:
        sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
        await scene.until(sending.done)
        with pytest.raises(DeliveryFailed, match="It is closed"):
            sending.result()
        await scene.until(lambda: not scene.untold)
    assert (scene.budget.daily_used, len(scene.told)) == (0, 2)


async def received(
    scene: DeliveryScene,
    outbox: RunningDelivery,
    message: ChatMessage,
    surface: str,
    refs: dict[str, str],
) -> None:
    await scene.store.transact(lambda tx: outbox.poster.add_received(tx, message, surface, refs))


async def test_what_the_owner_wrote_on_a_channel_is_not_sent_back_to_it() -> None:
    scene, one, other = two()
    question = said("hello", Author.OWNER)
    async with scene.running() as outbox:
        await received(scene, outbox, question, "discord", {"discord": "77"})
        await scene.until(lambda: not scene.waiting)
        await outbox.poster.post(replace(question, text="hello there"))
        await scene.until(lambda: other.texts == ["hello there"])
    assert (one.texts, one.edits) == ([], 0)
    found = scene.store.run(lambda tx: tx.deliveries.by_ref("discord", "77"))
    assert found is not None
    assert found.message.id == "hello"


async def test_an_edit_reaches_every_channel_once_in_its_newest_form() -> None:
    scene, one, other = two()
    card = said("card", Author.PROGRAM)
    async with scene.running() as outbox:
        await outbox.poster.post(card)
        await scene.until(lambda: not scene.waiting)
        one.is_down = True
        for text in ("first", "second", "third"):
            await outbox.poster.post(replace(card, text=text))
        await scene.until(lambda: other.texts == ["third"])
        one.is_down = False
        await scene.until(lambda: one.texts == ["third"])
    assert [each.text for each in scene.log] == ["third"]


async def test_an_answer_takes_its_draft_over_and_goes_on_below() -> None:
    clock = ManualClock(NOW)
    service = FakeChatService(clock, longest=5)
    scene = DeliveryScene([service], clock)
    draft = service.draw("turn-1", "…")
    async with scene.running() as outbox:
        await outbox.poster.post(said("abcdefgh", turn=TurnId("turn-1")))
        await scene.until(lambda: service.ends)
        await scene.until(lambda: service.history[0].text == "abcde")
    assert [(each.id == draft, each.text) for each in service.history] == [
        (True, "abcde"),
        (False, "fgh"),
    ]


async def test_a_channel_that_joins_starts_at_the_present_and_one_that_leaves_is_closed() -> None:
    scene, one, other = two()
    scene.services.remove(other)
    async with scene.running() as outbox:
        await outbox.send(ping(1), BACKGROUND, with_a_token)
    scene.services[:] = [other]
    one.is_down = True
    async with scene.running() as outbox:
        await outbox.send(ping(2), BACKGROUND, with_a_token)
        await scene.until(lambda: other.texts)
    assert (one.texts, other.texts) == (["ping 1"], ["ping 2"])


async def test_another_account_gets_nothing_that_was_for_the_first() -> None:
    scene, one, other = two()
    scene.services.remove(other)
    one.is_down = True
    async with scene.running() as outbox:
        sending = asyncio.create_task(outbox.send(ping(1), BACKGROUND, with_a_token))
        await scene.until(sending.done)
    one.account, one.is_down = "owner-2", False
    async with scene.running() as outbox:
        await scene.until(lambda: not scene.waiting)
        await outbox.send(ping(2), BACKGROUND, with_a_token)
    assert one.texts == ["ping 2"]


async def test_after_an_hour_what_has_passed_becomes_one_line_and_pings_still_come() -> None:
    scene, one, other = two()
    scene.services.remove(other)
    one.is_down = True
    passed = [
        said(f"{OF_GREETING}1", Author.PROGRAM),
        said("from the page", Author.OWNER),
        said("an answer"),
    ]
    async with scene.running() as outbox:
        await outbox.poster.post(passed[0])
        await received(scene, outbox, passed[1], "web", {})
        await outbox.poster.post(passed[2])
        await outbox.poster.post(replace(ping(), occurrence="reminder:w1:x"))
    scene.clock.jump(timedelta(hours=2).total_seconds())
    one.is_down = False
    async with scene.running():
        await scene.until(lambda: not scene.waiting)
    assert one.texts[0] == "ping 7"
    [line] = one.texts[1:]
    assert line.startswith("3 messages were said while Discord could not be reached (10:15).")
    states = {each.id: _state(scene, each) for each in scene.log}
    assert [states[each.id] for each in passed] == [DeliveryState.CLOSED] * 3


async def test_an_answer_to_what_was_asked_there_comes_however_late() -> None:
    scene, one, other = two()
    scene.services.remove(other)
    one.is_down = True
    async with scene.running() as outbox:
        await received(scene, outbox, said("asked", Author.OWNER), "discord", {"discord": "5"})
        await outbox.poster.post(said("answered"))
    scene.clock.jump(timedelta(days=1).total_seconds())
    one.is_down = False
    async with scene.running():
        await scene.until(lambda: not scene.waiting)
    assert one.texts == ["answered"]


def _state(scene: DeliveryScene, message: ChatMessage) -> DeliveryState:
    found = scene.store.run(lambda tx: tx.deliveries.get("discord", message.id))
    assert found is not None
    return found.state
