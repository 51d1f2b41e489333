"""A command that was typed as a message is done once, and delays no other message."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.discord.input_scene import InputScene, listening

from ollim_bot.domain.commands import CommandAnswer


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[InputScene]:
    async with listening(tmp_path) as scene:
        yield scene


async def test_a_command_that_was_typed_is_done_and_answered(scene: InputScene) -> None:
    scene.reception.answers["/model"] = CommandAnswer("opus answers now.")
    seen = scene.say("/model opus ")
    await scene.until(lambda: scene.channel.texts == ["opus answers now."])
    assert scene.reception.lines == [("discord", "/model opus")]
    assert scene.last_seen == seen.ref
    assert scene.received == []


async def test_a_command_is_remembered_before_it_is_done_so_that_it_is_not_done_again(
    scene: InputScene,
) -> None:
    scene.store.may_write.clear()
    seen = scene.say("/clear")
    await scene.until(lambda: scene.store.begun)
    assert scene.reception.calls == []
    scene.store.may_write.set()
    await scene.until(lambda: scene.reception.calls)
    assert scene.last_seen == seen.ref


async def test_a_command_is_done_although_the_disk_refuses(scene: InputScene) -> None:
    scene.store.is_full = True
    scene.say("/clear")
    await scene.until(lambda: scene.channel.texts == ["`/clear` is done."])


@pytest.mark.parametrize("text", ["/etc/passwd is odd", "/unknown", "/", "/models", "a /model"])
async def test_what_is_no_command_is_a_message(scene: InputScene, text: str) -> None:
    scene.say(text)
    await scene.until(lambda: scene.received == [text])


async def test_a_command_that_takes_long_keeps_nobody_waiting_for_long(scene: InputScene) -> None:
    scene.reception.may_answer.clear()
    scene.say("/compact")
    scene.say("hello")
    await scene.until(lambda: scene.reception.calls)
    await scene.until_asleep()
    assert scene.received == []
    await scene.clock.advance(1)
    await scene.until(lambda: scene.received == ["hello"])
    scene.reception.may_answer.set()
    await scene.until(lambda: scene.channel.texts == ["`/compact` is done."])


async def test_a_long_answer_comes_in_parts(scene: InputScene) -> None:
    scene.reception.answers["/model"] = CommandAnswer("\n".join(["word " * 20] * 50))
    scene.say("/model")
    await scene.until(lambda: len(scene.channel.texts) == 3)
    assert all(len(each) <= 2000 for each in scene.channel.texts)
