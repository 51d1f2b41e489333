"""What happens with every message costs the same, however long the history is."""

from __future__ import annotations

from functools import cache

from devtools.doubles.engine import CallsTool, Says, ScriptedEngine
from devtools.doubles.memory import memory_repositories
from devtools.doubles.repeating_store import RepeatingStore
from tests.conversation.scene import NOW, Scene, scene
from tests.stores import Stores

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.ids import MessageId, SessionId
from ollim_bot.domain.inbox import InputId
from ollim_bot.domain.sessions import SessionChange, SessionEvent
from ollim_bot.store.transaction import Transaction

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
