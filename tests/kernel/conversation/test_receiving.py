"""What is accepted is on disk, and is answered once, at a cost that does not grow."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest
from devtools.doubles.engine import CallsTool, Says, ScriptedEngine
from devtools.doubles.memory import memory_repositories
from devtools.doubles.repeating_store import RepeatingStore
from tests.kernel.conversation.scene import NOW, Scene, scene, scripted
from tests.kernel.conversation.slow_engine import ImageRecordingEngine
from tests.stores import Stores

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.store import message_log as messages
from ollim_bot.kernel.store.codecs.message_codec import CHAT_MESSAGES
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.events import Noted
from ollim_bot.kernel.values.inbox import InputEnd, InputId
from ollim_bot.kernel.values.ports import Image, IncomingFile
from ollim_bot.kernel.values.sessions import SessionChange, SessionEvent


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


async def reading(at: Scene) -> asyncio.Future[None]:
    """Send a picture, whose reading goes on until the returned future is done."""
    hold = at.keeper.hold("slow.png")
    await at.send("see", "m1", files=(IncomingFile("slow.png", Path("x")),))
    await at.until(lambda: at.keeper.reading == ["slow.png"])
    return hold


async def test_nobody_waits_for_a_picture_that_takes_long() -> None:
    """A message is accepted meanwhile, and ends the reading: both are asked together."""
    engine = ImageRecordingEngine()
    async with scene(engine) as at:
        hold = await reading(at)

        assert await at.ask("never mind", "m2") == "ok"
        assert hold.cancelled()
        assert len(engine.prompts) == 1
        assert "see" in engine.prompts[0]
        assert engine.seen == [(Image("image/png", b"slow.png"),)]
        assert at.ends == {"m1": InputEnd.ANSWERED, "m2": InputEnd.ANSWERED}


async def test_an_interrupt_also_ends_the_reading_of_a_picture() -> None:
    engine = ImageRecordingEngine()
    async with scene(engine) as at:
        hold = await reading(at)

        assert await at.chat.interrupt()
        await at.quiet()
        assert hold.cancelled()
        assert engine.prompts == []
        assert at.ends == {"m1": InputEnd.STOPPED}
        assert await at.ask("and now?", "m2") == "ok"


async def test_a_picture_that_takes_long_does_not_keep_the_bot_from_ending() -> None:
    async with scene(ImageRecordingEngine()) as at:
        hold = await reading(at)
    assert hold.cancelled()


async def test_a_reply_quotes_what_it_replies_to() -> None:
    engine = scripted("The sky is blue.", "Because.")
    async with scene(engine) as at:
        await at.ask("what colour?")
        await at.ask("why?", reply_to=at.answers[0].id)
        assert "> The sky is blue.\n\nwhy?" in engine.prompts[1]
        await at.ask("and now?", reply_to=MessageId("unknown"), quote="from elsewhere")
        assert "> from elsewhere\n\nand now?" in engine.prompts[2]


OLD = 5_000


def old_message(number: int) -> ChatMessage:
    return ChatMessage(MessageId(f"old-{number}"), NOW, Author.OWNER, f"old {number}")


@cache
def _store_with_history(length: int) -> RepeatingStore:
    store = RepeatingStore(lambda: NOW, is_repeating=False)
    old = [old_message(number) for number in range(length)]
    event = SessionEvent(SessionId("old"), SessionChange.COMPACTED, NOW, SessionId("old"))

    def step(tx: Transaction) -> None:
        for each in old:
            tx.messages.add(each)
        tx.session_history.append(*(event for _ in range(length)))

    store.run(step)
    return store


def with_history(length: int) -> Stores:
    return Stores(_store_with_history(length).copied(), memory_repositories())


def count_work(stores: Stores) -> list[int]:
    """Grows by one with every hundred instructions of the database."""
    store = stores.state
    assert isinstance(store, RepeatingStore)
    work: list[int] = []
    store._connection.set_progress_handler(lambda: work.append(1), 100)
    return work


async def work_of_five_messages(length: int) -> int:
    stores = with_history(length)
    engine = ScriptedEngine().then(CallsTool("Bash", {"command": "ls"}), Says("ok"))
    async with scene(engine, stores=stores) as at:
        work = count_work(stores)
        for number in range(5):
            await finished(at, f"new {number}", number)
        await at.chat.history(50)
        await at.chat.changes_since(length, 100)
        await at.chat.edit(InputId("new 4"), "too late")
        return len(work)


async def test_a_message_and_its_turn_cost_the_same_after_ten_times_the_history() -> None:
    short = await work_of_five_messages(OLD // 10)
    assert await work_of_five_messages(OLD) <= 1.1 * short


async def finished(at: Scene, text: str, number: int) -> None:
    """Send it and wait for the answer, without reading the log."""
    await at.send(text, reply_to=MessageId("old-99"))
    await at.quiet()
    assert len(at.surface.posts) == 2 * (number + 1)


async def test_the_old_part_of_the_history_can_still_be_read() -> None:
    stores = with_history(OLD)
    async with scene(ScriptedEngine(), stores=stores, runs=False) as at:
        page = await at.chat.history(3, MessageId("old-100"))
        assert [message.id for message in page] == ["old-97", "old-98", "old-99"]
        page = await at.chat.history(100, MessageId("old-4550"))
        assert [page[0].id, page[-1].id, len(page)] == ["old-4450", "old-4549", 100]
        assert await at.chat.message(MessageId("old-7")) == old_message(7)
        assert await at.chat.changes_since(7, 100) is None


async def test_a_turn_of_many_tools_leaves_an_inbox_without_rows_and_a_message_known() -> None:
    engine = ScriptedEngine().then(*[CallsTool("Read")] * 40, Says("Read all."))
    async with scene(engine) as at:
        await at.ask("read all")
        inbox = at.store.query(lambda tx: tx.inbox.get())
        assert (inbox.accepted, inbox.running, inbox.tools) == ((), None, ())
        assert await at.ask("more") == "ok"
        assert await at.send("read all") == at.log[0]
        assert len(engine.prompts) == 2


# More than any look at the newest messages reads.
LONG = 120


def talked(at: Scene, count: int) -> None:
    for number in range(count):
        author = Author.ASSISTANT if number % 2 else Author.OWNER
        said = NOW - timedelta(days=1, microseconds=7 * (count - number))
        message = ChatMessage(MessageId(f"alt-{number}"), said, author, f"Grüße {number}")
        at.stores.state.run(lambda tx, message=message: tx.messages.add(message))  # type: ignore[misc]


async def decoded_for_a_message(before: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many messages of the log are read for the second message of a conversation."""
    decode, count = CHAT_MESSAGES.decode, 0

    def counting(raw: bytes) -> ChatMessage:
        nonlocal count
        count += 1
        return decode(raw)

    async with scene(scripted("Hallo.", "Gern.")) as at:
        talked(at, before)
        await at.ask("erste")
        with monkeypatch.context() as patched:
            patched.setattr(messages, "CHAT_MESSAGES", CHAT_MESSAGES._replace(decode=counting))
            await at.send("zweite")
            await at.quiet()
    return count


async def test_of_a_long_conversation_no_more_is_read_than_of_a_short_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = await decoded_for_a_message(2, monkeypatch)
    assert await decoded_for_a_message(LONG, monkeypatch) <= few
