"""Crashes at every step of what is more than one message: a newer one, and commands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest
from tests.conversation.fate import Crash, Fate
from tests.conversation.recalling import WRITE
from tests.conversation.scene import Scene
from tests.conversation.story import UPDATES, Story

from ollim_bot.conversation import texts
from ollim_bot.domain.inbox import Ended, InputEnd
from ollim_bot.domain.inputs import InputId

pytestmark = pytest.mark.usefixtures("at_once")


Life = Callable[[Scene], Awaitable[None]]


async def through_a_crash(story: Story, at: int, live: Life) -> Fate:
    """A life that may end at this step, and one that goes on from there."""
    fate = Fate(at)
    for each in (fate, Fate()):
        with suppress(Crash):
            async with story.life(each) as scene:
                await live(scene)
                await scene.until(partial(is_over, scene, story))
    return fate


def is_over(scene: Scene, story: Story) -> bool:
    return scene.is_quiet and not story.waits


def ends_of(story: Story, name: str) -> list[InputEnd]:
    rows = (row for row in story.rows if isinstance(row, Ended))
    return [row.end for row in rows if InputId(name) in row.inputs]


def two_messages(story: Story) -> Life:
    """The second comes in the middle of the answer to the first; each is sent until accepted."""
    sent: set[str] = set()

    async def send(scene: Scene, name: str, text: str) -> None:
        if name not in sent:
            await scene.send(text, name)
            sent.add(name)

    async def live(scene: Scene) -> None:
        story.engine.meanwhile = lambda: send(scene, "m2", "hello")
        await send(scene, "m1", WRITE)
        await scene.until(lambda: "m2" in sent or scene.is_quiet)
        await send(scene, "m2", "hello")

    return live


async def test_a_crash_around_a_newer_message_loses_neither() -> None:
    at, fate = 0, Fate()
    how_m1_ended = set()
    while not at or fate.is_dead:
        at += 1
        story = Story()
        await story.begin(is_resumed=True)
        fate = await through_a_crash(story, at, two_messages(story))
        await story.go_on("m3")

        where = f"crash at step {at}: {fate.steps[-1]}"
        (end_of_m1,) = ends_of(story, "m1")
        how_m1_ended.add(end_of_m1)
        assert ends_of(story, "m2") == [InputEnd.ANSWERED], where
        assert story.texts.count("Hello.") == 3, where
        assert len(story.answers) == (end_of_m1 is InputEnd.ANSWERED), where
        assert story.engine.effects == ["written"], where
        assert [story.times_shown(update) for update in UPDATES] == [1, 1], where
        assert not story.waits, where
    assert at > 30
    assert how_m1_ended == {InputEnd.SUPERSEDED, InputEnd.ANSWERED}


def one_command() -> Life:
    called: list[str] = []

    async def live(scene: Scene) -> None:
        if not called:
            called.append("/clear")
            command = asyncio.create_task(scene.chat.command("web", "/clear"))
            scene.tasks.append(command)
            await scene.until(command.done)

    return live


async def test_a_crash_in_a_command_says_that_it_was_done_or_that_it_was_cut_off() -> None:
    at, fate = 0, Fate()
    outcomes = set()
    cut_off = texts.command_cut_off("clear")
    while not at or fate.is_dead:
        at += 1
        story = Story()
        await story.begin(is_resumed=True)
        fate = await through_a_crash(story, at, one_command())

        where = f"crash at step {at}: {fate.steps[-1]}"
        is_cleared = story.stores.session.read() is None
        wanted = [texts.CLEARED] if is_cleared else [cut_off] if story.rows else []
        assert story.told in (wanted, [cut_off]), where
        outcomes.update(story.told)
        assert not story.waits, where
        await story.go_on("m3")
        assert story.times_shown(cut_off) == story.told.count(cut_off), where
    assert outcomes == {texts.CLEARED, cut_off}
