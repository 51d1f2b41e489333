"""A silent connection is noticed by polling, and delays nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.discord.input_scene import (
    POLL,
    SILENT,
    InputScene,
    after_an_earlier_run,
    reads,
    until_next_poll,
)


@pytest.fixture
def scene(tmp_path: Path) -> InputScene:
    return InputScene(tmp_path)


async def test_a_poll_finds_what_was_never_brought_and_has_the_connection_made_anew(
    scene: InputScene,
) -> None:
    scene.catch_up.ready()
    async with scene.running():
        await scene.until(lambda: scene.last_seen)
        await until_next_poll(scene)
        scene.channel.say("anybody there?")
        await scene.clock.advance(POLL)
        await scene.until(lambda: scene.received == ["anybody there?"])
        await scene.until(lambda: scene.reconnects == 1)
        scene.channel.say("hello?")
        await until_next_poll(scene)
        await scene.clock.advance(POLL)
        await scene.until(lambda: scene.received == ["anybody there?", "hello?"])
        assert scene.reconnects == 1
        scene.catch_up.ready()
        await until_next_poll(scene)
        scene.channel.say("deaf again?")
        await scene.clock.advance(POLL)
        await scene.until(lambda: scene.reconnects == 2)


async def test_one_between_two_that_were_brought_is_found_too(scene: InputScene) -> None:
    scene.catch_up.ready()
    async with scene.running():
        await until_next_poll(scene)
        scene.channel.say("lost on the way")
        scene.say("brought")
        await scene.until(lambda: scene.received == ["brought"])
        await scene.clock.advance(POLL)
        await scene.until(lambda: scene.received == ["brought", "lost on the way"])


async def test_one_that_may_still_be_brought_is_no_reason_to_reconnect(scene: InputScene) -> None:
    scene.catch_up.ready()
    async with scene.running():
        await until_next_poll(scene)
        await scene.clock.advance(POLL - 10)
        scene.channel.say("just now")
        await scene.clock.advance(10)
        await scene.until(lambda: scene.received == ["just now"])
    assert scene.reconnects == 0


async def test_what_was_brought_is_no_reason_to_reconnect(scene: InputScene) -> None:
    scene.catch_up.ready()
    async with scene.running():
        await until_next_poll(scene)
        scene.say("/model opus")
        scene.say("brought")
        await scene.until(lambda: scene.received)
        before = reads(scene)
        await scene.clock.advance(POLL)
        await scene.until(lambda: reads(scene) > before)
        await until_next_poll(scene)
    assert scene.reconnects == 0
    assert scene.received == ["brought"]
    assert len(scene.reception.lines) == 1


async def test_what_was_missed_with_the_connection_is_no_reason_either(scene: InputScene) -> None:
    await after_an_earlier_run(scene)
    scene.channel.say("missed")
    await scene.clock.advance(3600)
    scene.catch_up.ready()
    async with scene.running():
        await scene.until(lambda: scene.received == ["missed"])
        await until_next_poll(scene)
    assert scene.reconnects == 0


async def test_a_poll_in_vain_keeps_nobody_waiting(scene: InputScene) -> None:
    scene.catch_up.ready()
    async with scene.running():
        await until_next_poll(scene)
        scene.channel.fail("after", SILENT)
        before = reads(scene)
        await scene.clock.advance(POLL)
        await scene.until(lambda: reads(scene) > before and scene.clock.sleeping)
        scene.say("hello")
        await scene.until(lambda: scene.received == ["hello"])


async def test_a_poll_without_a_connection_takes_what_it_finds(scene: InputScene) -> None:
    scene.catch_up.ready()
    async with scene.running():
        await until_next_poll(scene)
        scene.catch_up.lost()
        scene.channel.say("found")
        await scene.clock.advance(POLL)
        await scene.until(lambda: scene.received == ["found"])
        scene.channel.say("missed")
        scene.say("live")
        scene.catch_up.ready()
        await scene.until(lambda: scene.received == ["found", "missed", "live"])
    assert scene.reconnects == 0
