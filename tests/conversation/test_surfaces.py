"""A surface that fails or hangs delays neither the conversation nor another surface."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from devtools.doubles.engine import CallsTool, Says, ScriptedEngine, Waits
from devtools.doubles.surface import RecordingSurface
from tests.conversation.scene import Scene, scene
from tests.conversation.surfaces import AbandoningSurface, HangingSurface, OrderedSurface

from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.inbox import InputEnd

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
