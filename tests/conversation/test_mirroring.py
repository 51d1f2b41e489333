"""Each message of the conversation arrives at a chat service too, once and in order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from devtools.doubles.channel import FakeChatService
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from devtools.doubles.repeating_store import RepeatingStore
from devtools.doubles.surface import RecordingSurface
from tests.conversation.scene import NOW, scene

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.inbox import InputId
from ollim_bot.errors import StorageError, WriteFailed
from ollim_bot.ports import IncomingMessage
from ollim_bot.store.deliveries import Delivery
from ollim_bot.store.store import Store

pytestmark = pytest.mark.usefixtures("inline_executor")


def open_in(store: Store) -> list[Delivery]:
    return store.run(lambda tx: tx.deliveries.open("discord", 100))


async def test_what_came_from_there_is_not_sent_back() -> None:
    clock = ManualClock(NOW)
    service = FakeChatService(clock)
    async with scene(ScriptedEngine(), clock=clock, channels=[service]) as at:
        name = InputId("discord-5")
        await at.chat.receive(IncomingMessage(name, "discord", "hello", refs={"discord": "5"}))
        await at.until(lambda: service.texts)
        await at.ask("from the page")
        await at.until(lambda: len(service.texts) == 3)

    assert service.texts == ["ok", "from the page", "ok"]


async def test_a_message_is_known_by_the_id_that_it_has_elsewhere() -> None:
    clock = ManualClock(NOW)
    service = FakeChatService(clock)
    async with scene(ScriptedEngine(), clock=clock, channels=[service]) as at:
        await at.ask("hello")
        await at.until(lambda: len(service.texts) == 2)
        await at.until(lambda: not open_in(at.store))
        found = await at.chat.by_ref("discord", service.history[1].id)
        assert found is not None
        assert (found.text, found.author) == ("ok", Author.ASSISTANT)
        assert await at.chat.by_ref("discord", "1") is None
        assert await at.chat.by_ref("web", service.history[1].id) is None


async def test_what_is_seen_there_long_before_its_id_is_told_is_known_nevertheless() -> None:
    clock = ManualClock(NOW)
    service = FakeChatService(clock)
    async with scene(ScriptedEngine(), clock=clock, channels=[service]) as at:
        service.may_answer.clear()
        await at.ask("hello")
        await at.until(lambda: service.history)
        found = asyncio.create_task(at.chat.by_ref("discord", service.history[0].id))
        await clock.advance(6)
        assert not found.done()
        service.may_answer.set()
        message = await found
        assert message is not None
        assert message.text == "hello"


async def test_while_nobody_answers_there_the_page_goes_on_and_later_all_arrives() -> None:
    clock = ManualClock(NOW)
    service = FakeChatService(clock)
    service.is_down = True
    async with scene(ScriptedEngine(), clock=clock, channels=[service]) as at:
        assert await at.ask("one") == "ok"
        assert await at.ask("two") == "ok"
        assert service.texts == []
        service.is_down = False
        for _ in range(20):
            await clock.advance(10)
        await at.until(lambda: len(service.texts) == 4)

    assert service.texts == ["one", "ok", "two", "ok"]


async def test_a_card_that_changes_is_shown_again_and_not_sent_again() -> None:
    clock = ManualClock(NOW)
    service, surface = FakeChatService(clock), RecordingSurface()
    async with scene(ScriptedEngine(), clock=clock, surfaces=[surface], channels=[service]) as at:
        answer = await at.chat.command("web", "/fork")
        assert not answer.is_error
        await at.quiet()
        await at.ask("hello")
        [card] = [each for each in at.log if each.card is not None]
        await at.until(lambda: not open_in(at.store))
        refs = at.store.run(lambda tx: tx.deliveries.refs(card.id))
        await at.chat.click("web", card.id, _button(card, "Leave it"))
        await at.until(lambda: any("Side conversation ended" in text for text in service.texts))

        await at.quiet()
        shown = [each for each in surface.posts if each.id == card.id]
        assert len(shown) > 1
        assert at.store.run(lambda tx: tx.deliveries.refs(card.id)) == refs
    assert service.texts.count(card.text) == 1


async def test_a_full_disk_leaves_nothing_that_arrives_later_by_surprise() -> None:
    clock = ManualClock(NOW)
    service = FakeChatService(clock)
    async with scene(ScriptedEngine(), clock=clock, channels=[service]) as at:
        store = at.store
        assert isinstance(store, RepeatingStore)
        store.fail_with(WriteFailed(Path("ollim.db"), "the disk is full"))
        with pytest.raises(StorageError):
            await at.send("one")
        store.fail_with(None)
        for _ in range(5):
            await clock.advance(60)
        assert service.texts.count("one") <= 1
        assert not open_in(store)


def _button(card: ChatMessage, label: str) -> str:
    assert card.card is not None
    return next(each.custom_id for each in card.card.buttons if each.label == label)


async def test_as_soon_as_it_answers_again_nothing_waits_for_the_next_try() -> None:
    clock = ManualClock(NOW)
    service = FakeChatService(clock)
    service.is_down = True
    async with scene(ScriptedEngine(), clock=clock, channels=[service]) as at:
        await at.ask("one")
        for _ in range(10):
            await clock.advance(60)
        service.is_down = False
        await at.chat.trouble("It does not answer.")
        await at.chat.trouble("")
        await at.until(lambda: service.texts == ["one", "ok"])


async def test_what_was_said_last_may_arrive_before_the_bot_stops() -> None:
    clock = ManualClock(NOW)
    service = FakeChatService(clock)
    service.may_answer.clear()
    async with scene(ScriptedEngine(), clock=clock, channels=[service]) as at:
        await at.ask("one")
        settling = asyncio.create_task(at.talk.deliveries.settle(3.0))
        await clock.advance(1)
        assert not settling.done()
        service.may_answer.set()
        await settling
        assert service.texts == ["one", "ok"]
        service.is_down = True
        await at.ask("two")
        settling = asyncio.create_task(at.talk.deliveries.settle(3.0))
        await clock.advance(3)
        await settling
        assert service.texts == ["one", "ok"]
