"""What happens with every message costs the same, however long the history is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from tests.conversation.scene import NOW, Scene, scene, store_of

from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.inputs import InputId
from ollim_bot.domain.sessions import SessionChange, SessionEvent, SessionId
from ollim_bot.ports import Log, LogView
from ollim_bot.stores import Stores
from ollim_bot.testing.engine import CallsTool, Says, ScriptedEngine
from ollim_bot.testing.memory import memory_stores

OLD = 10_000


class CountingLog:
    """Counts how often it was read as a whole, and made short."""

    def __init__(self, log: Log[Any]) -> None:
        self.whole_reads = 0
        self._log = log

    def append(self, *entries: Any) -> None:
        self._log.append(*entries)

    def read(self, since: datetime | None = None) -> LogView[Any]:
        self.whole_reads += 1
        return self._log.read(since)

    def tail(self, limit: int) -> LogView[Any]:
        assert limit < OLD / 10
        return self._log.tail(limit)

    def compact(self, keep: Callable[[Sequence[Any]], Iterable[Any]]) -> None:
        self.whole_reads += 1
        self._log.compact(keep)


def old_message(number: int) -> ChatMessage:
    return ChatMessage(MessageId(f"old-{number}"), NOW, Author.OWNER, f"old {number}")


def with_history(stores: Stores) -> tuple[Stores, list[CountingLog]]:
    old = [old_message(number) for number in range(OLD)]
    store_of(stores).run(lambda tx: [tx.messages.add(each) for each in old] and None)
    event = SessionEvent(SessionId("old"), SessionChange.COMPACTED, NOW, SessionId("old"))
    stores.session_history.append(*(event for _ in range(OLD)))
    history, inbox = CountingLog(stores.session_history), CountingLog(stores.inbox)
    return replace(stores, session_history=history, inbox=inbox), [history, inbox]


async def test_no_log_is_read_as_a_whole_for_a_message_and_its_turn() -> None:
    stores, logs = with_history(memory_stores(NOW))
    engine = ScriptedEngine().then(CallsTool("Bash", {"command": "ls"}), Says("ok"))
    async with scene(engine, stores=stores) as at:
        assert logs[0].whole_reads == 0
        logs[1].whole_reads = 0
        for number in range(5):
            await finished(at, f"new {number}", number)
        await at.chat.history(50)
        await at.chat.changes_since(OLD, 100)
        await at.chat.edit(InputId("new 4"), "too late")
        assert [log.whole_reads for log in logs] == [0, 0]


async def finished(at: Scene, text: str, number: int) -> None:
    """Without a look at the logs."""
    await at.send(text, reply_to=MessageId("old-9999"))
    await at.quiet()
    assert len(at.surface.posts) == 2 * (number + 1)


async def test_the_old_part_of_the_history_can_still_be_read() -> None:
    stores, _ = with_history(memory_stores(NOW))
    async with scene(ScriptedEngine(), stores=stores, runs=False) as at:
        page = await at.chat.history(3, MessageId("old-100"))
        assert [message.id for message in page] == ["old-97", "old-98", "old-99"]
        page = await at.chat.history(100, MessageId("old-9550"))
        assert [page[0].id, page[-1].id, len(page)] == ["old-9450", "old-9549", 100]
        assert await at.chat.message(MessageId("old-7")) == old_message(7)
        assert await at.chat.changes_since(7, 100) is None


async def test_an_inbox_is_made_short_when_it_has_grown_long() -> None:
    engine = ScriptedEngine().then(*[CallsTool("Read")] * 400, Says("Read all."))
    async with scene(engine) as at:
        await at.ask("read all")
        assert len(at.rows) == 0
        assert await at.ask("more") == "ok"
        assert await at.send("read all") == at.log[0]
        assert len(engine.prompts) == 2
