"""The whole surface with the real client: what is said arrives once, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from devtools.localdiscord.faults import (
    AnswerHanging,
    AnswerLost,
    Delayed,
    ErrorResponse,
    Fault,
    Hanging,
)
from tests.discord.surface_scene import World, world_of
from tests.garbage import collect_garbage_of_earlier_tests

from ollim_bot.domain.events import TextStreamed
from ollim_bot.surfaces.discord.stale_drafts import GOES_ON_BELOW
from ollim_bot.surfaces.discord.surface import SHUTTING_DOWN
from ollim_bot.testing.engine import Waits

SEND, EDIT, READ = "POST /channels/*/messages", "PATCH /channels/*", "GET /channels/*/messages"
LONG = "One sentence of some words, as they come. " * 120


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with world_of(tmp_path / "discord") as made:
        yield made


def is_of_the_server(task: asyncio.Task[object]) -> bool:
    return "RequestHandler" in repr(task.get_coro())


async def test_each_message_is_answered_once_in_the_order_of_the_log(world: World) -> None:
    async with world.life() as life:
        await world.ask(life, "one", "first")
        await world.ask(life, "two", LONG)
        await world.ask(life, "three", "third")
    assert [each.id for each in world.local.messages[:-1]] == world.refs
    assert [each.text for each in world.local.messages if each.author == world.local.owner] == [
        "one",
        "two",
        "three",
    ]
    assert world.local.texts[0] == "first"
    assert world.local.texts[-2:] == ["third", SHUTTING_DOWN]


async def test_what_is_said_while_the_connection_is_gone_is_answered_once(world: World) -> None:
    async with world.life() as life:
        await world.ask(life, "are you here?", "here")
        await world.local.refuse_connections()
        await world.until(lambda: life.chat.status.trouble)
        await world.local.accept_again()
        await world.ask(life, "and now?", "there")
        await world.until(lambda: not life.chat.status.trouble)
    assert world.local.texts == ["here", "there", SHUTTING_DOWN]
    assert len(world.engine.prompts) == 2


async def test_what_is_said_at_the_first_start_is_answered_though_that_is_cut_off(
    world: World,
) -> None:
    world.local.say("from before it was there")
    # It is let in, and then nothing can be read.
    world.local.next_fail(READ, Delayed(0))
    world.local.next_fail(READ, ErrorResponse(503), times=None)
    async with world.life():
        world.local.say("hello")
    world.local.mend()
    world.engine.answers("whole")
    async with world.life() as life:
        await world.until(lambda: "whole" in world.local.texts)
        await world.quiet(life)
    assert len(world.engine.prompts) == 1


@pytest.mark.parametrize("fault", [AnswerLost(), AnswerHanging()])
@pytest.mark.parametrize("forgets", [True, False])
async def test_an_answer_that_may_have_arrived_when_the_program_died_is_not_repeated(
    world: World, fault: Fault, forgets: bool
) -> None:
    world.engine.answers("whole")
    async with world.life():
        world.local.next_fail(EDIT, fault, times=None)
        world.local.next_fail(SEND, fault, times=None)
        world.local.say("hello")
        await world.until(lambda: "whole" in world.local.texts)
    world.local.mend()
    if forgets:
        world.local.forget_nonces()
    async with world.life() as life:
        await world.quiet(life)
        await world.until(lambda: not any("Thinking…" in text for text in world.local.texts))
        assert world.local.texts.count("whole") == 1
        assert world.refs == [
            each.id for each in world.local.messages if each.text != SHUTTING_DOWN
        ]


async def test_an_answer_that_takes_over_a_draft_is_no_orphan_of_the_next_life(
    world: World,
) -> None:
    world.engine.answers("whole")
    # So tight that the draft is not edited while the turn runs, however slow this machine is.
    world.local.allowance(1, 0.05)
    async with world.life():
        world.local.next_fail(EDIT, AnswerHanging(), times=None)
        world.local.say("hello")
        await world.until(lambda: "whole" in world.local.texts)
        # The goodbye is a second message: it may not come in the moment of the draft.
        await world.clock.advance(0.1)
    world.local.mend()
    async with world.life() as life:
        await world.until(lambda: not world.drafts)
        await world.quiet(life)
        assert world.local.texts == ["whole", SHUTTING_DOWN]


async def test_a_turn_that_died_leaves_no_running_one_behind(world: World) -> None:
    world.engine.then(TextStreamed("half an answer"), Waits())
    async with world.life():
        world.local.say("hello")
        await world.until(lambda: "half an answer" in world.local.texts)
    world.engine.answers("whole")
    async with world.life() as life:
        await world.until(lambda: "whole" in world.local.texts)
        await world.quiet(life)
        assert world.local.texts[0] in (
            f"half an answer\n{GOES_ON_BELOW}",
            "half an answer\n-# cut off here",
        )


async def test_a_draft_that_was_not_noted_before_the_end_is_taken_away(world: World) -> None:
    world.engine.then(Waits())
    async with world.life():
        world.local.next_fail(SEND, AnswerHanging(), times=None)
        world.local.say("hello")
        await world.until(lambda: "-# Thinking…" in world.local.texts)
    world.local.mend()
    world.engine.answers("whole")
    async with world.life() as life:
        await world.until(lambda: "whole" in world.local.texts)
        await world.quiet(life)
        await world.until(lambda: "-# Thinking…" not in world.local.texts)


async def test_nothing_is_left_running_when_it_has_stopped(world: World) -> None:
    collect_garbage_of_earlier_tests()
    before = asyncio.all_tasks()
    async with world.life() as life:
        await world.ask(life, "one", "first")
        world.engine.then(TextStreamed("half"), Waits())
        world.local.say("two")
        await world.until(lambda: "half" in world.local.texts)
    assert world.local.texts[-1] == SHUTTING_DOWN
    # What discord.py does not wait for ends by itself, soon.
    await world.until(lambda: all(map(is_of_the_server, asyncio.all_tasks() - before)))
    await world.until(lambda: not world.local.gateway.lines)
    # What was not closed is found now, and told as a warning.
    gc.collect()


async def test_it_stops_within_seconds_while_discord_hangs(world: World) -> None:
    world.engine.then(TextStreamed("half"), Waits())
    async with world.life() as life:
        world.local.say("one")
        await world.until(lambda: "half" in world.local.texts)
        world.local.next_fail("*", Hanging(), times=None)
        async with asyncio.timeout(60):
            await life.stop()
