"""A disk that takes nothing more: what was accepted waits, and goes on when there is room."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from devtools.doubles.engine import ScriptedEngine
from tests.crashes.restarted_bot import RestartedBot, check_answered
from tests.kernel.conversation.crashing import StepCounter, crashing_stores
from tests.kernel.conversation.failing_stores import UnreadableConfigStore
from tests.kernel.conversation.scene import NOW, Scene, plain_spec, scene
from tests.kernel.conversation.transcript_engine import ANSWER, WRITE, TranscriptEngine
from tests.stores import memory_stores, on_store

from ollim_bot.kernel.base.errors import StorageError, Unreadable, WriteFailed
from ollim_bot.kernel.values.inbox import InputEnd
from ollim_bot.kernel.values.ports import SessionSpec

pytestmark = pytest.mark.usefixtures("inline_executor")


class FullDisk(StepCounter):
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


def is_over_or_waits(at: Scene) -> bool:
    return at.is_quiet or bool(at.clock.sleeping)


async def send_until_kept(at: Scene, disk: FullDisk) -> None:
    try:
        await at.send(WRITE, "m1")
    except StorageError:
        disk.has_room = True
        await at.send(WRITE, "m1")


async def writes() -> int:
    bot, disk = RestartedBot(), FullDisk()
    await bot.prepare()
    async with scene(bot.engine, stores=crashing_stores(bot.stores, disk)) as at:
        await at.ask(WRITE, "m1")
    return len(disk.steps)


async def test_wherever_the_disk_is_full_the_message_is_answered_once_when_there_is_room() -> None:
    number, has_waited = await writes(), 0
    assert number == len(["join", "accept", "take", "name", "call", "conclude"])
    for full_at in range(1, number + 1):
        bot, disk = RestartedBot(), FullDisk(full_at)
        await bot.prepare()
        async with scene(bot.engine, stores=crashing_stores(bot.stores, disk)) as at:
            await send_until_kept(at, disk)
            await at.until(partial(is_over_or_waits, at))
            has_waited += not at.is_quiet
            disk.has_room = True
            await at.clock.advance(5)
            await at.quiet()
        await bot.send_another()
        check_answered(bot, f"full at write {full_at}: {disk.steps[full_at - 1]}")
    assert has_waited > 2


async def test_a_message_that_cannot_be_kept_is_refused_with_a_sentence() -> None:
    engine, disk = TranscriptEngine(), FullDisk(1)
    stores = memory_stores(NOW)
    async with scene(engine, stores=crashing_stores(stores, disk)) as at:
        with pytest.raises(StorageError, match="No space left on device"):
            await at.send(WRITE, "m1")
        assert (list(at.rows), at.log) == ([], [])
        disk.has_room = True
        assert await at.ask(WRITE, "m1") == ANSWER
        assert at.ends == {"m1": InputEnd.ANSWERED}


async def test_settings_that_cannot_be_read_hold_up_no_message() -> None:
    stores = memory_stores(NOW)
    blind = UnreadableConfigStore(stores.state, is_unreadable=False)
    async with scene(TranscriptEngine(), stores=on_store(stores, blind)) as at:
        blind.is_unreadable = True
        await at.send("hello")
        await at.until(lambda: at.answers)
        assert at.answers[-1].text == "Hello."
        answer = await at.chat.command("web", "/model")
        assert (answer.is_error, answer.text) == (True, "ollim.db: is there but cannot be read.")


async def test_where_the_agent_cannot_be_described_the_reason_is_said() -> None:
    wrong = [Unreadable(Path("IDENTITY.md"), "is there but cannot be read.")]

    async def spec() -> SessionSpec:
        if wrong:
            raise wrong[0]
        return await plain_spec()

    async with scene(TranscriptEngine(), spec=spec) as at:
        assert await at.ask_without_answer("hello") == "IDENTITY.md: is there but cannot be read."
        assert at.ends == {"hello": InputEnd.FAILED}
        wrong.clear()
        assert await at.ask("hello", "again") == "Hello."


async def test_what_stands_still_is_told_when_there_is_room_again() -> None:
    bot, disk = RestartedBot(), FullDisk(4)
    async with scene(bot.engine, stores=crashing_stores(bot.stores, disk)) as at:
        await at.send("hello")
        await at.until(lambda: at.clock.sleeping)
        assert at.log[-1].text == "hello"
        disk.has_room = True
        await at.clock.advance(5)
        await at.until(lambda: at.answers)
        await at.clock.advance(600)
        await at.until(lambda: at.told)
        assert at.told == ["inbox.jsonl: No space left on device."]


async def test_a_command_on_a_full_disk_gives_an_answer() -> None:
    disk = FullDisk()
    stores = crashing_stores(memory_stores(NOW), disk)
    async with scene(TranscriptEngine(), stores=stores) as at:
        await at.ask("hello")
        for refused in range(1, 9):
            disk.fill_at(refused)
            answer = await at.chat.command("web", "/clear")
            assert answer.text or not disk.is_full, refused
            disk.has_room = True
            await at.clock.advance(5)
            await at.until(lambda: at.talk.state.is_idle)


async def test_what_cannot_be_kept_is_seen_while_that_lasts() -> None:
    """The owner has to make room, so the page must say so before there is some."""
    disk = FullDisk()
    async with scene(ScriptedEngine(), stores=crashing_stores(memory_stores(NOW), disk)) as at:
        disk.fill_at(1)
        refused = await at.talk.notices.tell("Make room.", key="room")
        assert isinstance(refused, StorageError)
        assert at.surface.statuses[-1].trouble == "Make room."
        seen = len(at.surface.statuses)
        assert await at.talk.notices.tell("Make some room.", key="room")
        assert at.chat.status.trouble == "Make room."
        assert len(at.surface.statuses) == seen
        disk.has_room = True
        await at.clock.advance(20)
        await at.until(lambda: at.told)
        assert at.told == ["Make room."]
        assert at.surface.statuses[-1].trouble == ""
        assert await at.talk.notices.tell("Make room.", key="room") is None


async def test_what_waits_is_read_and_seen_though_a_start_can_write_nothing() -> None:
    stores, disk = memory_stores(NOW), FullDisk()
    async with scene(TranscriptEngine(), stores=stores, runs=False) as before:
        await before.send("hello", "m1")
    disk.fill_at(1)
    async with scene(TranscriptEngine(), stores=crashing_stores(stores, disk)) as at:
        assert [each.text for each in await at.chat.history(5)] == ["hello"]
        disk.has_room = True
        await at.clock.advance(5)
        await at.until(lambda: at.answers)
        assert at.ends == {"m1": InputEnd.ANSWERED}
