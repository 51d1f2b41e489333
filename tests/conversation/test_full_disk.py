"""A disk that takes nothing more: what was accepted waits, and goes on when there is room."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.conversation.fate import Fate, SteppedDatabase, fated
from tests.conversation.recalling import ANSWER, WRITE, RecallingEngine
from tests.conversation.scene import NOW, Scene, plain_spec, scene, store_of
from tests.conversation.story import Story, check_answered

from ollim_bot.domain.inbox import Accepted, InboxRow, InputEnd
from ollim_bot.domain.inputs import InputId, OwnerMessage
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.errors import StorageError, Unreadable, WriteFailed
from ollim_bot.ports import AgentEngine, SessionSpec
from ollim_bot.stores import Stores
from ollim_bot.testing.engine import CallsTool, Says, ScriptedEngine
from ollim_bot.testing.memory import MemoryStore, memory_stores

pytestmark = pytest.mark.usefixtures("at_once")


class FullDisk(Fate):
    """From one step on, writes are refused, until `has_room`."""

    def __init__(self, full_at: int | None = None) -> None:
        super().__init__()
        self._full_at = full_at
        self.has_room = False

    def fill_at(self, step: int) -> None:
        """Counted from now on."""
        self.has_room = False
        self._full_at = len(self.steps) + step

    @property
    def is_full(self) -> bool:
        is_late = self._full_at is not None and len(self.steps) >= self._full_at
        return is_late and not self.has_room

    def step(self, what: str) -> None:
        if what.startswith("before"):
            self.steps.append(what)
            if self.is_full:
                raise WriteFailed(Path("inbox.jsonl"), "No space left on device.")


def scene_on(
    disk: FullDisk, engine: AgentEngine, stores: Stores, rows: list[InboxRow] | None = None
) -> AbstractAsyncContextManager[Scene]:
    store = SteppedDatabase(store_of(stores), disk)
    return scene(engine, stores=fated(stores, disk, [] if rows is None else rows), store=store)


def is_over_or_waits(at: Scene) -> bool:
    return at.is_quiet or bool(at.clock.sleeping)


async def send_until_kept(at: Scene, disk: FullDisk) -> None:
    try:
        await at.send(WRITE, "m1")
    except StorageError:
        disk.has_room = True
        await at.send(WRITE, "m1")


async def writes() -> int:
    story, disk = Story(), FullDisk()
    await story.begin()
    async with scene_on(disk, story.engine, story.stores, story.rows) as at:
        await at.ask(WRITE, "m1")
    return len(disk.steps)


async def test_wherever_the_disk_is_full_the_message_is_answered_once_when_there_is_room() -> None:
    number, has_waited = await writes(), 0
    assert number > 8
    for full_at in range(1, number + 1):
        story, disk = Story(), FullDisk(full_at)
        await story.begin()
        async with scene_on(disk, story.engine, story.stores, story.rows) as at:
            await send_until_kept(at, disk)
            await at.until(partial(is_over_or_waits, at))
            has_waited += not at.is_quiet
            disk.has_room = True
            await at.clock.advance(5)
            await at.quiet()
        await story.go_on()
        check_answered(story, f"full at write {full_at}: {disk.steps[full_at - 1]}")
    assert has_waited > 4


async def test_a_message_that_cannot_be_kept_is_refused_with_a_sentence() -> None:
    engine, disk = RecallingEngine(), FullDisk(1)
    stores = memory_stores(NOW)
    async with scene_on(disk, engine, stores) as at:
        with pytest.raises(StorageError, match="No space left on device"):
            await at.send(WRITE, "m1")
        assert (list(at.rows), at.log) == ([], [])
        disk.has_room = True
        assert await at.ask(WRITE, "m1") == ANSWER
        assert at.ends == {"m1": InputEnd.ANSWERED}


class LockedStore(MemoryStore[RuntimeConfig]):
    """A file that is there, and that nobody may read."""

    def read(self) -> RuntimeConfig:
        raise Unreadable(Path("config.json"), "is there but cannot be read.")


async def test_settings_that_cannot_be_read_hold_up_no_message() -> None:
    stores = replace(memory_stores(NOW), config=LockedStore(RuntimeConfig()))
    async with scene(RecallingEngine(), stores=stores) as at:
        assert await at.ask("hello") == "Hello."
        answer = await at.chat.command("web", "/model")
        assert (answer.is_error, answer.text) == (
            True,
            "config.json: is there but cannot be read.",
        )


async def test_where_the_agent_cannot_be_described_the_reason_is_said() -> None:
    wrong = [Unreadable(Path("IDENTITY.md"), "is there but cannot be read.")]

    async def spec() -> SessionSpec:
        if wrong:
            raise wrong[0]
        return await plain_spec()

    async with scene(RecallingEngine(), spec=spec) as at:
        assert await at.ask_in_vain("hello") == "IDENTITY.md: is there but cannot be read."
        assert at.ends == {"hello": InputEnd.FAILED}
        wrong.clear()
        assert await at.ask("hello", "again") == "Hello."


async def test_what_stands_still_is_told_when_there_is_room_again() -> None:
    story, disk = Story(), FullDisk(5)
    async with scene_on(disk, story.engine, story.stores, story.rows) as at:
        await at.send("hello")
        await at.until(lambda: at.clock.sleeping)
        assert at.log[-1].text == "hello"
        disk.has_room = True
        await at.clock.advance(5)
        await at.until(lambda: at.answers)
        await at.clock.advance(600)
        await at.until(lambda: at.told)
        assert at.told == ["inbox.jsonl: No space left on device."]


class FullForLongRows(FullDisk):
    """There is no room for a second inbox beside the first."""

    def step(self, what: str) -> None:
        if what == "before the inbox is made short" and what in self.steps:
            raise WriteFailed(Path("inbox.jsonl"), "No space left on device.")
        super().step(what)


async def test_an_inbox_that_cannot_be_made_short_is_no_reason_to_stop() -> None:
    engine = ScriptedEngine().then(*[CallsTool("Read")] * 400, Says("Read all."))
    stores = fated(memory_stores(NOW), FullForLongRows(), [])
    async with scene(engine, stores=stores) as at:
        assert await at.ask("read all") == "Read all."
        assert len(at.rows) > 400
        assert await at.ask("more") == "ok"
        assert at.told == []


async def test_a_command_on_a_full_disk_gives_an_answer() -> None:
    disk = FullDisk()
    async with scene_on(disk, RecallingEngine(), memory_stores(NOW)) as at:
        await at.ask("hello")
        for refused in range(1, 9):
            disk.fill_at(refused)
            answer = await at.chat.command("web", "/clear")
            assert answer.text or not disk.is_full, refused
            disk.has_room = True
            await at.clock.advance(5)
            await at.until(lambda: at.chat.is_idle)


async def test_what_cannot_be_kept_is_seen_while_that_lasts() -> None:
    """The owner has to make room, so the page must say so before there is some."""
    disk = FullDisk()
    async with scene_on(disk, ScriptedEngine(), memory_stores(NOW)) as at:
        disk.fill_at(1)
        refused = await at.talk.notices.tell("Make room.", key="room")
        assert isinstance(refused, StorageError)
        assert at.surface.statuses[-1].trouble == "Make room."
        seen = len(at.surface.statuses)
        assert await at.talk.notices.tell("Make some room.", key="room")
        assert at.chat.status.trouble == "Make room."
        assert len(at.surface.statuses) == seen
        disk.has_room = True
        await at.clock.advance(5)
        await at.until(lambda: at.told)
        assert at.told == ["Make room."]
        assert at.surface.statuses[-1].trouble == ""
        assert await at.talk.notices.tell("Make room.", key="room") is None


async def test_what_waits_is_read_and_seen_though_a_start_can_write_nothing() -> None:
    """What a crash had left: accepted, and neither in the log nor answered."""
    stores, disk = memory_stores(NOW), FullDisk()
    message = OwnerMessage(InputId("m1"), "web", NOW, "hello")
    stores.inbox.append(Accepted(NOW, message))
    disk.fill_at(1)
    async with scene_on(disk, RecallingEngine(), stores) as at:
        assert [each.text for each in await at.chat.history(5)] == ["hello"]
        disk.has_room = True
        await at.clock.advance(5)
        await at.until(lambda: at.answers)
        assert at.ends == {"m1": InputEnd.ANSWERED}
