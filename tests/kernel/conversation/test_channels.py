"""Any number of channels and surfaces follow one log, and none waits for another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from devtools.doubles.channel import FakeChatService
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import CallsTool, Says, ScriptedEngine, Waits
from devtools.doubles.surface import RecordingSurface
from tests.kernel.conversation.delivery_scene import (
    DeliveryScene,
    RunningDelivery,
    ping,
    run_of,
    with_a_token,
)
from tests.kernel.conversation.scene import NOW, Scene, scene
from tests.kernel.conversation.surfaces import AbandoningSurface, HangingSurface, OrderedSurface

from ollim_bot.kernel.base.errors import DeliveryFailed, DeliveryUncertain
from ollim_bot.kernel.base.ids import MessageId, TurnId
from ollim_bot.kernel.store.delivery_rows import Delivery, DeliveryState
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.chat import OF_GREETING, Attachment, Author, ChatMessage
from ollim_bot.kernel.values.inbox import InputEnd
from ollim_bot.kernel.values.runs import RunKind

pytestmark = pytest.mark.usefixtures("inline_executor")


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


async def refused(scene: DeliveryScene, outbox: RunningDelivery) -> None:
    sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
    await scene.until(sending.done)
    with pytest.raises(DeliveryFailed, match="It is closed"):
        sending.result()
    await scene.until(lambda: not scene.untold)


async def test_what_its_only_channel_refuses_is_given_back_though_another_follows_the_log() -> None:
    scene, one, phone = with_a_phone()
    one.refusal = "It is closed."
    async with scene.running() as outbox:
        await refused(scene, outbox)
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
        await refused(scene, outbox)
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


class NotEditable(FakeChatService):
    async def edit(self, ref: str, content: ChatMessage) -> None:
        raise DeliveryUncertain(f"{ref} was not changed: {content.text}")


async def test_an_answer_whose_draft_cannot_be_edited_is_sent_anew_within_seconds() -> None:
    service = NotEditable(clock := ManualClock(NOW))
    scene = DeliveryScene([service], clock)
    draft = service.draw("turn-1", "…")
    answer = said("It is done.", turn=TurnId("turn-1"))
    async with scene.running() as outbox:
        await outbox.poster.post(answer)
        for _ in range(20):
            await clock.advance(1)
        assert service.texts.count("It is done.") == 1
        assert scene.refs(answer.id) != (draft,)
        assert scene.waiting == []


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


PATIENCE = 2.0

MANY = 10


async def test_a_message_is_shown_before_its_turn_and_the_answer_before_its_end() -> None:
    surface = OrderedSurface()
    async with scene(ScriptedEngine(), surfaces=[surface]) as at:
        await at.ask("hello")
        said = ["turn", "SessionNamed", "TextStreamed", "TextCompleted"]
        assert surface.seen == ["hello", *said, "ok", "TurnEnded"]
        await at.ask("more")
        assert surface.seen[7:] == ["more", *said, "ok", "TurnEnded"]


async def test_all_surfaces_show_the_same() -> None:
    surfaces = [RecordingSurface("web"), RecordingSurface("discord")]
    async with scene(ScriptedEngine(), surfaces=surfaces) as at:
        await at.ask("hello")
        web, discord = surfaces
        assert web.posts == discord.posts
        assert web.events == discord.events
        assert web.starts == discord.starts
        assert [(start.at, start.inputs) for start in web.starts] == [(at.clock.now(), ("hello",))]


async def test_a_surface_that_raises_hurts_nobody() -> None:
    broken, well = RecordingSurface("broken"), RecordingSurface("well")
    broken.is_broken = True
    async with scene(ScriptedEngine(), surfaces=[broken, well]) as at:
        assert await at.ask("hello") == "ok"
        assert well.texts == ["hello", "ok"]
        broken.is_broken = False
        assert await at.ask("more") == "ok"
        assert broken.texts == ["more", "ok"]


async def test_a_surface_that_stops_showing_a_turn_is_not_waited_for() -> None:
    surface = AbandoningSurface()
    async with scene(ScriptedEngine(), surfaces=[surface], patience=600) as at:
        async with asyncio.timeout(60):
            await at.ask("hello")
            await at.ask("more")
        assert surface.texts == ["hello", "ok", "more", "ok"]


@pytest.mark.parametrize("what", ["post", "present", "changed"])
async def test_a_surface_that_hangs_is_waited_for_once_and_then_left_alone(what: str) -> None:
    hanging, well = HangingSurface(what), RecordingSurface("well")
    async with scene(ScriptedEngine(), surfaces=[hanging, well], patience=PATIENCE) as at:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(MANY):
            await at.send(f"hello {number}")
            await at.until(partial(has_ended, at, number + 1))
        took = loop.time() - began

        assert took < MANY * PATIENCE
        assert set(at.ends.values()) == {InputEnd.ANSWERED}
        await at.until(lambda: len(well.texts) == 2 * MANY)
        hanging.awake.set()
        await at.until(lambda: hanging.posts and hanging.starts and hanging.statuses)
        await at.quiet()
        before = len(hanging.posts)
        await at.ask("at last")
        assert hanging.texts[before:] == ["at last", "ok"]


def has_ended(at: Scene, count: int) -> bool:
    return len(at.ends) == count


async def test_history_is_the_newest_or_what_came_before() -> None:
    async with scene(ScriptedEngine()) as at:
        for number in range(4):
            await at.ask(f"m{number}")
        ids = [message.id for message in at.log]

        assert [each.id for each in await at.chat.history(3)] == ids[-3:]
        assert [each.id for each in await at.chat.history(3, ids[3])] == ids[:3]
        assert [each.id for each in await at.chat.history(3, ids[1])] == ids[:1]
        assert await at.chat.history(3, ids[0]) == []
        assert await at.chat.history(3, MessageId("unknown")) == []
        last = await at.chat.last_change()
        missed = await at.chat.changes_since(last - 2, 10)
        assert [each.message.id for each in missed or ()] == ids[-2:]
        assert await at.chat.changes_since(last, 10) == []
        assert await at.chat.changes_since(last - 3, 2) is None, "that is too much"
        assert await at.chat.changes_since(last + 1, 10) is None, "there is no such change"
        assert await at.chat.message(ids[2]) == at.log[2]
        assert await at.chat.message(MessageId("unknown")) is None


async def test_whether_the_bot_is_busy_is_told_to_the_surfaces() -> None:
    async with scene(ScriptedEngine().then(Says("ok"))) as at:
        await at.ask("hello")
        await at.until(lambda: not at.surface.statuses[-1].is_busy)
        assert True in [status.is_busy for status in at.surface.statuses]


async def test_a_new_name_is_shown_at_once_and_after_a_restart() -> None:
    renames = CallsTool("mcp__discord__update_names", {"user_name": "Sam", "bot_name": "Kit"})
    engine = ScriptedEngine().then(renames, Waits())
    async with scene(engine) as at:
        assert at.chat.status.bot_name == "Ollim"
        await at.send("call yourself Kit, and me Sam")
        await at.until(lambda: at.surface.statuses[-1].bot_name == "Kit")
        assert at.chat.status.user_name == "Sam"
        await at.chat.interrupt()
        await at.quiet()
    async with scene(engine, stores=at.stores, runs=False) as again:
        assert (again.chat.status.bot_name, again.chat.status.user_name) == ("Kit", "Sam")


@asynccontextmanager
async def followed() -> AsyncIterator[tuple[Scene, FakeChatService]]:
    """A conversation that a chat service follows."""
    service = FakeChatService(clock := ManualClock(NOW))
    async with scene(ScriptedEngine(), clock=clock, channels=[service]) as at:
        yield at, service


def open_in(store: Store) -> list[Delivery]:
    return store.run(lambda tx: tx.deliveries.open("discord", 100))


async def test_a_message_is_known_by_the_id_that_it_has_elsewhere() -> None:
    async with followed() as (at, service):
        await at.ask("hello")
        await at.until(lambda: len(service.texts) == 2)
        await at.until(lambda: not open_in(at.store))
        found = await at.chat.by_ref("discord", service.history[1].id)
        assert found is not None
        assert (found.text, found.author) == ("ok", Author.ASSISTANT)
        assert await at.chat.by_ref("discord", "1") is None
        assert await at.chat.by_ref("web", service.history[1].id) is None


async def test_what_is_seen_there_long_before_its_id_is_told_is_known_nevertheless() -> None:
    async with followed() as (at, service):
        service.may_answer.clear()
        await at.ask("hello")
        await at.until(lambda: service.history)
        found = asyncio.create_task(at.chat.by_ref("discord", service.history[0].id))
        await at.clock.advance(6)
        assert not found.done()
        service.may_answer.set()
        message = await found
        assert message is not None
        assert message.text == "hello"


async def test_a_card_that_changes_is_shown_again_and_not_sent_again() -> None:
    clock = ManualClock(NOW)
    service, surface = FakeChatService(clock), RecordingSurface()
    async with scene(ScriptedEngine(), clock=clock, surfaces=[surface], channels=[service]) as at:
        answer = await at.chat.command("web", "/fork")
        assert not answer.is_error
        await at.quiet()
        await at.ask("hello")
        card = at.newest_card
        await at.until(lambda: not open_in(at.store))
        refs = at.store.run(lambda tx: tx.deliveries.refs(card.id))
        await at.press("Leave it", card)
        await at.until(lambda: any("Side conversation ended" in text for text in service.texts))

        await at.quiet()
        shown = [each for each in surface.posts if each.id == card.id]
        assert len(shown) > 1
        assert at.store.run(lambda tx: tx.deliveries.refs(card.id)) == refs
    assert service.texts.count(card.text) == 1


async def test_as_soon_as_it_answers_again_nothing_waits_for_the_next_try() -> None:
    async with followed() as (at, service):
        service.is_down = True
        await at.ask("one")
        for _ in range(10):
            await at.clock.advance(60)
        service.is_down = False
        await at.chat.trouble("It does not answer.")
        await at.chat.trouble("")
        await at.until(lambda: service.texts == ["one", "ok"])


async def test_what_was_said_last_may_arrive_before_the_bot_stops() -> None:
    async with followed() as (at, service):
        service.may_answer.clear()
        await at.ask("one")
        settling = asyncio.create_task(at.talk.deliveries.settle(3.0))
        await at.clock.advance(1)
        assert not settling.done()
        service.may_answer.set()
        await settling
        assert service.texts == ["one", "ok"]
        service.is_down = True
        await at.ask("two")
        settling = asyncio.create_task(at.talk.deliveries.settle(3.0))
        await at.clock.advance(3)
        await settling
        assert service.texts == ["one", "ok"]
