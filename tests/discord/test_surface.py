"""The whole surface with the real client: what is said arrives once, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from devtools.doubles.engine import CallsTool, Waits
from devtools.localdiscord.faults import (
    AnswerHanging,
    AnswerLost,
    Delayed,
    ErrorResponse,
    Fault,
    Hanging,
)
from tests.discord.surface_scene import SurfaceScene, surface_scene
from tests.garbage import collect_garbage_of_earlier_tests

from ollim_bot.domain.events import EndCause, TextStreamed, TurnEnded
from ollim_bot.domain.usage import Usage
from ollim_bot.surfaces.discord.drafts import GOES_ON_BELOW
from ollim_bot.surfaces.discord.surface import SHUTTING_DOWN

SEND, EDIT, READ = "POST /channels/*/messages", "PATCH /channels/*", "GET /channels/*/messages"
LONG = "One sentence of some words, as they come. " * 120


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[SurfaceScene]:
    async with surface_scene(tmp_path / "discord") as made:
        yield made


def is_of_the_server(task: asyncio.Task[object]) -> bool:
    return "RequestHandler" in repr(task.get_coro())


async def test_each_message_is_answered_once_in_the_order_of_the_log(scene: SurfaceScene) -> None:
    async with scene.started() as bot:
        await scene.ask(bot, "one", "first")
        await scene.ask(bot, "two", LONG)
        await scene.ask(bot, "three", "third")
    assert [each.id for each in scene.local.messages[:-1]] == scene.refs
    assert [each.text for each in scene.local.messages if each.author == scene.local.owner] == [
        "one",
        "two",
        "three",
    ]
    assert scene.local.texts[0] == "first"
    assert scene.local.texts[-2:] == ["third", SHUTTING_DOWN]


async def test_the_model_that_answers_is_shown_below_the_name_of_the_bot(
    scene: SurfaceScene,
) -> None:
    usage = Usage(1000, 10, model="claude-sonnet-4-6")
    scene.engine.then(TurnEnded(EndCause.COMPLETED, "ok", usage=usage))
    async with scene.started() as bot:
        assert scene.local.gateway.shown == ""
        scene.local.say("hello")
        await scene.until(lambda: scene.local.gateway.shown == "claude-sonnet-4-6")
        await scene.quiet(bot)


async def test_one_press_below_a_running_answer_ends_a_careful_time(scene: SurfaceScene) -> None:
    fetch = CallsTool("WebFetch", {"url": "https://news.example/", "prompt": "read"}, "News.")
    scene.engine.then(fetch, Waits())
    async with scene.started() as bot:
        bot.running.append(asyncio.create_task(bot.talk.board.run()))
        scene.local.say("what is new?")
        await scene.until(lambda: any(each.buttons for each in scene.local.said))
        (draft,) = scene.local.said
        assert "careful since 10\\:15\\: web page news.example" in draft.text
        (button,) = draft.buttons
        pressed = scene.local.click(draft.id, button["custom_id"])
        await scene.until(lambda: pressed.followups)
        assert "not careful any more" in await pressed.said()
        await scene.until(lambda: not draft.buttons)
        assert bot.chat.status.careful is None
        assert "careful" not in draft.text
        await bot.chat.interrupt()
        await scene.quiet(bot)


async def test_what_is_said_while_the_connection_is_gone_is_answered_once(
    scene: SurfaceScene,
) -> None:
    async with scene.started() as bot:
        await scene.ask(bot, "are you here?", "here")
        await scene.local.refuse_connections()
        await scene.until(lambda: bot.chat.status.trouble)
        await scene.local.accept_again()
        await scene.ask(bot, "and now?", "there")
        await scene.until(lambda: not bot.chat.status.trouble)
    assert scene.local.texts == ["here", "there", SHUTTING_DOWN]
    assert len(scene.engine.prompts) == 2


async def test_what_is_said_at_the_first_start_is_answered_though_that_is_cut_off(
    scene: SurfaceScene,
) -> None:
    scene.local.say("from before it was there")
    # It is let in, and then nothing can be read.
    scene.local.next_fail(READ, Delayed(0))
    scene.local.next_fail(READ, ErrorResponse(503), times=None)
    async with scene.started():
        scene.local.say("hello")
    scene.local.mend()
    scene.engine.answers("whole")
    async with scene.started() as bot:
        await scene.until(lambda: "whole" in scene.local.texts)
        await scene.quiet(bot)
    assert len(scene.engine.prompts) == 1


@pytest.mark.parametrize("fault", [AnswerLost(), AnswerHanging()])
@pytest.mark.parametrize("forgets", [True, False])
async def test_an_answer_that_may_have_arrived_when_the_program_died_is_not_repeated(
    scene: SurfaceScene, fault: Fault, forgets: bool
) -> None:
    scene.engine.answers("whole")
    async with scene.started():
        scene.local.next_fail(EDIT, fault, times=None)
        scene.local.next_fail(SEND, fault, times=None)
        scene.local.say("hello")
        await scene.until(lambda: "whole" in scene.local.texts)
    scene.local.mend()
    if forgets:
        scene.local.forget_nonces()
    async with scene.started() as bot:
        await scene.quiet(bot)
        await scene.until(lambda: not any("Thinking…" in text for text in scene.local.texts))
        assert scene.local.texts.count("whole") == 1
        assert scene.refs == [
            each.id for each in scene.local.messages if each.text != SHUTTING_DOWN
        ]


async def test_an_answer_that_takes_over_a_draft_is_no_orphan_of_the_next_run(
    scene: SurfaceScene,
) -> None:
    scene.engine.answers("whole")
    # So tight that the draft is not edited while the turn runs, however slow this machine is.
    scene.local.allowance(1, 0.05)
    async with scene.started():
        scene.local.next_fail(EDIT, AnswerHanging(), times=None)
        scene.local.say("hello")
        await scene.until(lambda: "whole" in scene.local.texts)
        # The goodbye is a second message: it may not come in the moment of the draft.
        await scene.clock.advance(0.1)
    scene.local.mend()
    async with scene.started() as bot:
        await scene.until(lambda: not scene.drafts)
        await scene.quiet(bot)
        assert scene.local.texts == ["whole", SHUTTING_DOWN]


async def test_a_turn_that_died_leaves_no_running_one_behind(scene: SurfaceScene) -> None:
    scene.engine.then(TextStreamed("half an answer"), Waits())
    async with scene.started():
        scene.local.say("hello")
        await scene.until(lambda: "half an answer" in scene.local.texts)
    scene.engine.answers("whole")
    async with scene.started() as bot:
        await scene.until(lambda: "whole" in scene.local.texts)
        await scene.quiet(bot)
        assert scene.local.texts[0] in (
            f"half an answer\n{GOES_ON_BELOW}",
            "half an answer\n-# cut off here",
        )


async def test_a_draft_that_was_not_noted_before_the_end_is_taken_away(scene: SurfaceScene) -> None:
    scene.engine.then(Waits())
    async with scene.started():
        scene.local.next_fail(SEND, AnswerHanging(), times=None)
        scene.local.say("hello")
        await scene.until(lambda: any("Thinking…" in text for text in scene.local.texts))
    scene.local.mend()
    scene.engine.answers("whole")
    async with scene.started() as bot:
        await scene.until(lambda: "whole" in scene.local.texts)
        await scene.quiet(bot)
        await scene.until(lambda: not any("Thinking…" in text for text in scene.local.texts))


async def test_nothing_is_left_running_when_it_has_stopped(scene: SurfaceScene) -> None:
    collect_garbage_of_earlier_tests()
    before = asyncio.all_tasks()
    async with scene.started() as bot:
        await scene.ask(bot, "one", "first")
        scene.engine.then(TextStreamed("half"), Waits())
        scene.local.say("two")
        await scene.until(lambda: "half" in scene.local.texts)
    assert scene.local.texts[-1] == SHUTTING_DOWN
    # What discord.py does not wait for ends by itself, soon.
    await scene.until(lambda: all(map(is_of_the_server, asyncio.all_tasks() - before)))
    await scene.until(lambda: not scene.local.gateway.lines)
    # What was not closed is found now, and told as a warning.
    gc.collect()


async def test_it_stops_within_seconds_while_discord_hangs(scene: SurfaceScene) -> None:
    scene.engine.then(TextStreamed("half"), Waits())
    async with scene.started() as bot:
        scene.local.say("one")
        await scene.until(lambda: "half" in scene.local.texts)
        scene.local.next_fail("*", Hanging(), times=None)
        async with asyncio.timeout(60):
            await bot.stop()
