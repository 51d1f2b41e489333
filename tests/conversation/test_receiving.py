"""What is accepted is on disk, and is answered once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from devtools.doubles.engine import Says, ScriptedEngine, Waits
from tests.conversation.image_engine import ImageRecordingEngine
from tests.conversation.scene import scene, scripted

from ollim_bot.domain.chat import Author
from ollim_bot.domain.events import Noted
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.inbox import Accepted, InputEnd, InputId
from ollim_bot.errors import WrongInput
from ollim_bot.ports import Image, IncomingFile


async def test_what_is_accepted_is_in_the_inbox_and_in_the_message_log() -> None:
    async with scene(scripted(), runs=False) as at:
        shown = await at.send("hello")

        assert [row.input.id for row in at.rows if isinstance(row, Accepted)] == ["hello"]
        assert at.log == [shown]
        assert (shown.author, shown.text, shown.at) == (Author.OWNER, "hello", at.clock.now())


async def test_a_message_gets_one_answer() -> None:
    async with scene(scripted("Hello, Ada.")) as at:
        assert await at.ask("hello") == "Hello, Ada."

        assert [message.text for message in at.log] == ["hello", "Hello, Ada."]
        assert at.surface.texts == ["hello", "Hello, Ada."]
        assert at.ends == {"hello": InputEnd.ANSWERED}


async def test_the_same_id_twice_is_one_message() -> None:
    engine = scripted("one", "two")
    async with scene(engine) as at:
        first, second = await asyncio.gather(at.send("hello", "m1"), at.send("hello", "m1"))
        await at.quiet()
        third = await at.send("hello", "m1")
        await at.quiet()

        assert first == second == third
        assert at.surface.posted_by(Author.OWNER) == ["hello"]
        assert [answer.text for answer in at.answers] == ["one"]
        assert len(engine.prompts) == 1


async def test_the_same_id_after_a_restart_is_one_message() -> None:
    engine = scripted("one", "two")
    async with scene(engine) as at:
        await at.ask("hello", "m1")
    async with scene(engine, stores=at.stores) as again:
        await again.send("hello", "m1")
        await again.quiet()
        assert [answer.text for answer in again.answers] == ["one"]


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_an_empty_message_is_refused_with_a_sentence(text: str) -> None:
    async with scene(scripted()) as at:
        with pytest.raises(WrongInput, match="nothing in this message"):
            await at.send(text, "m1")
        assert (at.log, list(at.rows)) == ([], [])


async def test_a_file_without_words_is_a_message() -> None:
    engine = scripted("Nice.")
    async with scene(engine) as at:
        await at.ask("", "m1", files=(IncomingFile("cat.png", Path("x")),))

        assert [each.name for each in at.message("m1").attachments] == ["cat.png"]
        assert "image: cat.png" in engine.prompts[0]


async def test_a_file_that_cannot_be_kept_refuses_the_message() -> None:
    async with scene(scripted()) as at:
        with pytest.raises(WrongInput, match="too large"):
            await at.send("see", "m1", files=(IncomingFile("refused.mp4", Path("x")),))
        assert (at.log, list(at.rows)) == ([], [])


async def test_a_picture_that_cannot_be_read_is_said_and_the_rest_is_answered() -> None:
    engine = ImageRecordingEngine()
    async with scene(engine) as at:
        files = (IncomingFile("broken.png", Path("x")), IncomingFile("cat.png", Path("y")))
        assert await at.ask("see", "m1", files=files) == "ok"
        assert engine.seen == [(Image("image/png", b"cat.png"),)]

        notes = [
            each.text
            for each in at.surface.events[at.surface.starts[0].turn]
            if isinstance(each, Noted)
        ]
        assert notes == ["broken.png is no picture that can be read. It was left out."]
        assert at.answers[-1].footer == notes[0]
        assert "- image: broken.png, left out since it could not be read" in engine.prompts[0]
        assert "- image: cat.png" in engine.prompts[0]


async def test_nobody_waits_for_a_picture_that_takes_long() -> None:
    """A message is accepted meanwhile, and ends the reading: both are asked together."""
    engine = ImageRecordingEngine()
    async with scene(engine) as at:
        hold = at.keeper.hold("slow.png")
        await at.send("see", "m1", files=(IncomingFile("slow.png", Path("x")),))
        await at.until(lambda: at.keeper.reading == ["slow.png"])

        assert await at.ask("never mind", "m2") == "ok"
        assert hold.cancelled()
        assert len(engine.prompts) == 1
        assert "see" in engine.prompts[0]
        assert engine.seen == [(Image("image/png", b"slow.png"),)]
        assert at.ends == {"m1": InputEnd.ANSWERED, "m2": InputEnd.ANSWERED}


async def test_an_interrupt_also_ends_the_reading_of_a_picture() -> None:
    engine = ImageRecordingEngine()
    async with scene(engine) as at:
        hold = at.keeper.hold("slow.png")
        await at.send("see", "m1", files=(IncomingFile("slow.png", Path("x")),))
        await at.until(lambda: at.keeper.reading == ["slow.png"])

        assert await at.chat.interrupt()
        await at.quiet()
        assert hold.cancelled()
        assert engine.prompts == []
        assert at.ends == {"m1": InputEnd.STOPPED}
        assert await at.ask("and now?", "m2") == "ok"


async def test_a_picture_that_takes_long_does_not_keep_the_bot_from_ending() -> None:
    async with scene(ImageRecordingEngine()) as at:
        hold = at.keeper.hold("slow.png")
        await at.send("see", "m1", files=(IncomingFile("slow.png", Path("x")),))
        await at.until(lambda: at.keeper.reading == ["slow.png"])
    assert hold.cancelled()


async def test_a_reply_quotes_what_it_replies_to() -> None:
    engine = scripted("The sky is blue.", "Because.")
    async with scene(engine) as at:
        await at.ask("what colour?")
        await at.ask("why?", reply_to=at.answers[0].id)
        assert "> The sky is blue.\n\nwhy?" in engine.prompts[1]
        await at.ask("and now?", reply_to=MessageId("unknown"), quote="from elsewhere")
        assert "> from elsewhere\n\nand now?" in engine.prompts[2]


async def test_an_edited_message_that_waits_is_taken_as_edited() -> None:
    engine = ScriptedEngine().then(Waits()).answers("ok")
    async with scene(engine, runs=False) as at:
        await at.send("tomorow", "m1")
        assert await at.chat.edit(InputId("m1"), "tomorrow")
        at.tasks.append(asyncio.create_task(at.talk.loop.run()))
        await at.until(lambda: engine.prompts)

        assert engine.prompts[0].endswith("tomorrow")
        assert at.message("m1").text == "tomorrow"
        assert not await at.chat.edit(InputId("m1"), "too late")
        assert at.message("m1").text == "tomorrow"


async def test_a_withdrawn_message_is_not_answered() -> None:
    engine = ScriptedEngine().then(Says("ok"))
    async with scene(engine, runs=False) as at:
        await at.send("never mind", "m1")
        await at.send("hello", "m2")
        assert await at.chat.withdraw(InputId("m1"))
        assert not await at.chat.withdraw(InputId("m1"))
        at.tasks.append(asyncio.create_task(at.talk.loop.run()))
        await at.quiet()

        assert ["never mind" in prompt for prompt in engine.prompts] == [False]
        assert at.ends == {"m1": InputEnd.WITHDRAWN, "m2": InputEnd.ANSWERED}
