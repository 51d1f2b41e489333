"""The greeting after a start: once, and according to how the last run ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from tests.kernel.conversation.failing_stores import FullDiskStore
from tests.kernel.conversation.scene import NOW, Scene, scene, scripted
from tests.stores import Stores, memory_stores, on_store

from ollim_bot.kernel.prompts.turn_prompts import read_set_up
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.schedule import GivenNames

CUT_OFF = (
    "I was cut off without warning, last seen today 10:15, and am back. "
    "What you had sent is not lost."
)


@asynccontextmanager
async def bot_run(
    engine: ScriptedEngine,
    stores: Stores,
    clock: ManualClock,
    *,
    is_killed: bool = False,
    for_restart: bool = False,
    heartbeat: datetime | None = None,
) -> AsyncIterator[Scene]:
    """A run of the bot, which calls the greeting at its start and its end as the app does."""
    async with scene(engine, stores=stores, clock=clock) as at:
        await at.talk.greeting.begun(heartbeat)
        yield at
        if not is_killed:
            await at.talk.greeting.ended(for_restart=for_restart)


def a_bot() -> tuple[ScriptedEngine, Stores, ManualClock]:
    return scripted("Hi.", "Hi.", "Hi."), memory_stores(NOW), ManualClock(NOW)


async def greeted(at: Scene) -> str:
    """What is said when it is asked for; empty if nothing is."""
    before = len(at.told)
    await at.talk.greeting.say()
    return "\n".join(at.told[before:])


async def welcomed(at: Scene) -> tuple[ChatMessage, Card]:
    await at.talk.greeting.say()
    (message,) = at.log
    assert message.card is not None
    return message, message.card


async def test_the_very_first_start_is_a_welcome_with_a_way_to_set_up() -> None:
    engine, stores, clock = a_bot()
    async with bot_run(engine, stores, clock) as at:
        message, card = await welcomed(at)

        assert message.author is Author.PROGRAM
        assert card.problems() == []
        assert card.title == "Hello, I am Ollim"
        assert "\n" not in card.description, "it is one line"
        assert [button.label for button in card.buttons] == ["Set up", "What I can do"]
        assert message.text == card.text
    async with bot_run(engine, stores, clock) as later:
        assert await greeted(later) == "back.", "a welcome that nobody answered is not repeated"


async def test_the_button_of_the_welcome_begins_the_set_up_once() -> None:
    engine, stores, clock = a_bot()
    async with bot_run(engine, stores, clock) as at:
        message, card = await welcomed(at)
        set_up = card.buttons[0].custom_id
        answer = await at.chat.click("web", message.id, set_up)
        await at.quiet()
        again = await at.chat.click("web", message.id, set_up)
        await at.quiet()

        assert not answer.is_error
        assert again.is_error
        (prompt,) = engine.prompts
        assert prompt.startswith("[button]\n")
        assert prompt.endswith(read_set_up())
        assert at.surface.posted_by(Author.OWNER) == ["Set up"]


async def test_what_the_program_alone_has_said_does_not_take_the_welcome_away() -> None:
    engine, stores, clock = a_bot()
    async with bot_run(engine, stores, clock) as at:
        await at.talk.notices.tell("The time zone is not known.")
        await at.until(lambda: at.surface.posts)
        await at.talk.greeting.say()
        assert at.log[-1].card is not None


@pytest.mark.parametrize(
    ("lines", "ending", "sentence"),
    [
        ([], {}, "back. our conversation goes on."),
        (["/clear"], {}, "back."),
        (["/fork"], {}, "back. a side conversation is still open."),
        (["/fork taxes"], {}, "back. the side conversation “taxes” is still open."),
        (
            ["/fork taxes"],
            {"for_restart": True},
            "back after a restart. the side conversation “taxes” is still open.",
        ),
        (
            ["/fork taxes"],
            {"is_killed": True},
            f"{CUT_OFF} The side conversation “taxes” is still open.",
        ),
    ],
    ids=["stopped", "cleared", "no topic", "fork", "fork, restarted", "fork, killed"],
)
async def test_after_a_start_it_is_back_and_says_what_goes_on(
    lines: list[str], ending: dict[str, Any], sentence: str
) -> None:
    engine, stores, clock = a_bot()
    async with bot_run(engine, stores, clock, **ending) as at:
        await at.ask("hello")
        for line in lines:
            await at.chat.command("web", line)
            await at.quiet()
    async with bot_run(engine, stores, clock) as later:
        assert await greeted(later) == sentence
        assert later.log[-1].in_fork is ("side conversation" in sentence)


async def test_a_conversation_whose_log_is_gone_is_not_welcomed_as_new() -> None:
    engine, stores, clock = a_bot()
    async with bot_run(engine, stores, clock) as at:
        await at.ask("hello")
    session, empty = stores.session.read(), memory_stores(NOW)
    empty.state.run(lambda tx: tx.session.put(session))
    async with bot_run(engine, empty, clock) as later:
        assert await greeted(later) == "back. our conversation goes on."


async def test_after_a_crash_it_says_when_it_was_last_there() -> None:
    engine, stores, clock = a_bot()
    async with bot_run(engine, stores, clock, is_killed=True) as at:
        await at.ask("hello")
    alive = NOW + timedelta(hours=3, minutes=47, seconds=31)
    clock.jump(timedelta(hours=5).total_seconds())
    async with bot_run(engine, stores, clock, heartbeat=alive) as later:
        assert await greeted(later) == (
            "I was cut off without warning, last seen today 14:02, and am back. "
            "What you had sent is not lost."
        )
    async with bot_run(engine, stores, clock) as healthy:
        assert await greeted(healthy) == "back. our conversation goes on."


async def test_a_heartbeat_of_an_earlier_run_is_not_the_last_sign() -> None:
    engine, stores, clock = a_bot()
    async with bot_run(engine, stores, clock) as at:
        await at.ask("hello")
    before = NOW - timedelta(days=3)
    async with bot_run(engine, stores, clock, is_killed=True, heartbeat=before):
        pass
    async with bot_run(engine, stores, clock, heartbeat=before) as later:
        assert "last seen today 10:15," in await greeted(later)


@pytest.mark.parametrize(
    ("jump", "day"), [(86400, "yesterday"), (-2 * 86400, "today")], ids=["", "set back"]
)
async def test_a_crash_is_said_although_nobody_was_there_to_hear_of_it_at_first(
    jump: int, day: str
) -> None:
    """A clock that was set back makes no sign of tomorrow."""
    engine, stores, clock = a_bot()
    async with bot_run(engine, stores, clock, is_killed=True) as at:
        await at.ask("hello")
    async with bot_run(engine, stores, clock):
        clock.jump(jump)
    async with bot_run(engine, stores, clock) as later:
        assert f"last seen {day} 10:15," in await greeted(later)


async def test_the_end_before_the_first_mark_is_taken_for_a_good_one() -> None:
    engine, stores, clock = a_bot()
    async with scene(engine, stores=stores, clock=clock) as unmarked:
        await unmarked.ask("hello")
    async with bot_run(engine, stores, clock) as later:
        assert await greeted(later) == "back. our conversation goes on."


@pytest.mark.parametrize("is_new", [True, False], ids=["welcome", "back"])
async def test_it_is_said_once_in_a_run(is_new: bool) -> None:
    engine, stores, clock = a_bot()
    if not is_new:
        async with bot_run(engine, stores, clock) as at:
            await at.ask("hello")
    async with bot_run(engine, stores, clock) as later:
        before = later.log
        await asyncio.gather(later.talk.greeting.say(), later.talk.greeting.say())
        await later.talk.greeting.say()
        assert len(later.log) == len(before) + 1


async def test_what_the_disk_refuses_is_said_when_it_is_asked_for_again() -> None:
    engine, stores, clock = a_bot()
    full = FullDiskStore(stores.state, is_full=False)
    async with bot_run(engine, on_store(stores, full), clock) as at:
        full.is_full = True
        await at.talk.greeting.say()
        assert await at.chat.history(10) == []
        full.is_full = False
        stores.state.run(lambda tx: tx.names.put(GivenNames(bot="Mira")))
        _, card = await welcomed(at)
        assert card.title == "Hello, I am Mira", "it has the name that was given"


async def test_a_full_disk_keeps_nobody_from_starting_greeting_and_stopping() -> None:
    engine, stores, clock = a_bot()
    full = FullDiskStore(stores.state)
    async with bot_run(engine, on_store(stores, full), clock) as at:
        await at.talk.greeting.say()
        assert at.log == []
        full.is_full = False
        await welcomed(at)
        full.is_full = True
