"""The doubles of the core and of a surface do what the real ones promise."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.reception import FakeReception
from devtools.doubles.surface import RecordingSurface
from tests.web.scene import SUNDAY

from ollim_bot.domain.cards import Button, Card
from ollim_bot.domain.chat import Author
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.events import EndCause, TextStreamed, TurnEnded
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.inbox import InputId
from ollim_bot.errors import WriteFailed
from ollim_bot.ports import ChatService, ChatSurface, IncomingFile, IncomingMessage


@pytest.fixture
def reception(tmp_path: Path) -> FakeReception:
    return FakeReception(ManualClock(SUNDAY), tmp_path)


@pytest.fixture
def surface(reception: FakeReception) -> RecordingSurface:
    surface = RecordingSurface()
    reception.surfaces.append(surface)
    return surface


def incoming(number: int, text: str = "hello", *files: IncomingFile) -> IncomingMessage:
    return IncomingMessage(InputId(f"i{number}"), "web", text, files=files)


def test_they_double_the_seams(reception: FakeReception, surface: RecordingSurface) -> None:
    seam: ChatService = reception
    other: ChatSurface = surface
    assert (seam, other.name) == (reception, "recording")


async def test_a_message_is_shown_and_kept_once(
    reception: FakeReception, surface: RecordingSurface
) -> None:
    first = await reception.receive(incoming(1))
    assert await reception.receive(incoming(1)) == first
    assert (surface.posts, reception.messages) == ([first], [first])
    assert surface.posted_by(Author.OWNER) == ["hello"]


async def test_a_file_is_taken_over(reception: FakeReception, tmp_path: Path) -> None:
    file = tmp_path / "0"
    file.write_bytes(b"x")
    message = await reception.receive(incoming(1, "", IncomingFile("notes.txt", file)))
    [kept] = message.attachments
    assert not file.exists()
    assert (kept.name, kept.size) == ("notes.txt", 1)
    assert (tmp_path / kept.path).read_bytes() == b"x"


async def test_it_can_refuse(reception: FakeReception, surface: RecordingSurface) -> None:
    reception.refusal = WriteFailed(Path("x"), "the disk is full.")
    with pytest.raises(WriteFailed):
        await reception.receive(incoming(1))
    assert surface.posts == []


async def test_what_waits_can_be_changed_and_taken_back(
    reception: FakeReception, surface: RecordingSurface
) -> None:
    await reception.receive(incoming(1))
    assert not await reception.edit(InputId("i1"), "other")
    reception.waiting.add(InputId("i1"))
    assert await reception.edit(InputId("i1"), "other")
    assert surface.texts == ["hello", "other"]
    assert [message.text for message in reception.messages] == ["other"]
    assert await reception.withdraw(InputId("i1"))
    assert not await reception.withdraw(InputId("i1"))


async def test_a_button_is_used_once_and_not_by_a_click_that_fails(
    reception: FakeReception, surface: RecordingSurface
) -> None:
    card = Card("Tea", buttons=(Button("Drink", "agent", "1"), Button("Pour", "agent", "2")))
    message = await reception.say(card.text, card=card)
    reception.answers["act:agent:1"] = CommandAnswer("It is hot.", is_error=True)
    assert (await reception.click("web", message.id, "act:agent:1")).text == "It is hot."
    assert surface.posts == [message]
    del reception.answers["act:agent:1"]
    assert not (await reception.click("web", message.id, "act:agent:1")).is_error
    [_, again] = surface.posts
    assert again.card is not None
    assert [button.is_used for button in again.card.buttons] == [True, False]
    assert reception.messages == [again]
    assert (await reception.click("web", message.id, "act:agent:1")).is_error
    assert (await reception.click("web", message.id, "act:agent:3")).is_error
    assert (await reception.click("web", MessageId("x"), "act:agent:1")).is_error
    assert reception.clicks == [("web", message.id, "act:agent:1")]


async def test_history_comes_in_pages_and_what_was_missed_after_the_last(
    reception: FakeReception,
) -> None:
    said = [await reception.say(str(number)) for number in range(5)]
    assert await reception.history(2) == said[3:]
    assert await reception.history(2, said[2].id) == said[:2]
    missed = await reception.changes_since(4, 10)
    assert [each.message for each in missed or ()] == said[4:]
    assert await reception.changes_since(6, 10) is None
    assert await reception.message(said[1].id) == said[1]


async def test_a_turn_is_presented_as_it_goes_and_its_answer_posted_before_its_end(
    reception: FakeReception, surface: RecordingSurface
) -> None:
    turn = reception.begin(MessageId("i1"))
    await turn.show(TextStreamed("hel"))
    assert surface.events[turn.start.turn] == [TextStreamed("hel")]
    answer = await turn.end("hello")
    assert surface.posts == [answer]
    assert answer is not None
    ended = TurnEnded(EndCause.COMPLETED, messages=(answer.id,))
    assert surface.events[turn.start.turn][-1] == ended
    assert surface.starts == [turn.start]
    assert not await reception.interrupt()


async def test_an_interrupt_ends_the_turn(
    reception: FakeReception, surface: RecordingSurface
) -> None:
    turn = reception.begin()
    assert await reception.interrupt()
    assert surface.events[turn.start.turn] == [TurnEnded(EndCause.INTERRUPTED)]
    assert await turn.end("late") is None


async def test_the_status_is_told(reception: FakeReception, surface: RecordingSurface) -> None:
    before = reception.status
    await reception.change(is_busy=True)
    assert surface.statuses == [replace(before, is_busy=True)] == [reception.status]


async def test_a_surface_can_hang_in_the_middle_of_a_turn(
    reception: FakeReception, surface: RecordingSurface
) -> None:
    surface.may_go_on.clear()
    turn = reception.begin()
    showing = asyncio.create_task(turn.show(TextStreamed("a")))
    async with surface.news:
        await surface.news.wait_for(lambda: bool(surface.starts))
    assert surface.events[turn.start.turn] == []
    surface.may_go_on.set()
    await showing
    assert surface.events[turn.start.turn] == [TextStreamed("a")]
    await turn.end()


async def test_a_surface_can_be_broken(surface: RecordingSurface, reception: FakeReception) -> None:
    surface.is_broken = True
    with pytest.raises(RuntimeError, match="broken"):
        await reception.say("hello")
    with pytest.raises(RuntimeError, match="broken"):
        await surface.run(reception)
