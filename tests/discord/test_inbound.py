"""What the owner writes is taken in once, whole and in order, and acknowledged when it is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.discord.input_scene import FULL, InputScene, listening

from ollim_bot.errors import Unreachable, WrongInput
from ollim_bot.surfaces.discord.inbound import NOT_TAKEN, NOTHING_TO_READ, not_kept_yet
from ollim_bot.surfaces.discord.rendering import input_of


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[InputScene]:
    async with listening(tmp_path) as scene:
        yield scene


async def test_a_message_is_kept_then_marked_and_then_remembered(scene: InputScene) -> None:
    scene.reception.refusal = FULL
    seen = scene.say("hello")
    await scene.until_asleep()
    assert not scene.is_marked(seen)
    assert scene.last_seen is None
    scene.reception.refusal = None
    await scene.clock.advance(1)
    await scene.until(lambda: scene.is_marked(seen) and scene.last_seen == seen.ref)
    [incoming] = scene.reception.received
    assert (incoming.id, incoming.surface, incoming.text) == (
        input_of(seen.ref),
        "discord",
        "hello",
    )
    assert dict(incoming.refs) == {"discord": seen.ref}


async def test_messages_of_others_do_nothing(scene: InputScene) -> None:
    scene.say("let me in", is_owners=False)
    scene.say("hello")
    await scene.until(lambda: scene.received)
    assert scene.received == ["hello"]


async def test_one_that_is_brought_twice_is_taken_once(scene: InputScene) -> None:
    seen = scene.say("/model opus")
    scene.inbound.message(seen)
    scene.say("hello")
    await scene.until(lambda: scene.received)
    scene.inbound.message(seen)
    scene.say("bye")
    await scene.until(lambda: scene.received == ["hello", "bye"])
    assert scene.reception.lines == [("discord", "/model opus")]


async def test_one_that_is_answered_already_gets_no_mark(scene: InputScene) -> None:
    await scene.reception.change(is_busy=False)
    seen = scene.say("quick")
    await scene.until(lambda: scene.last_seen == seen.ref)
    await scene.reception.change(is_busy=True)
    fence = scene.say("fence")
    await scene.until(lambda: scene.is_marked(fence))
    assert ("mark", seen.ref) not in scene.channel.calls


async def test_a_mark_that_hangs_keeps_nobody_waiting(scene: InputScene) -> None:
    scene.channel.may_answer.clear()
    for number in range(20):
        scene.say(str(number))
    await scene.until(lambda: len(scene.received) == 20)


async def test_while_the_disk_refuses_it_is_tried_again_and_said_once(scene: InputScene) -> None:
    scene.reception.refusal = FULL
    scene.say("first")
    scene.say("second")
    for _ in range(12):
        await scene.until_asleep()
        await scene.clock.advance(60)
    assert scene.received == []
    assert scene.channel.texts == [not_kept_yet("No space left on device.")]
    assert [call for call, _ in scene.channel.calls] == ["send"]
    scene.reception.refusal = None
    await scene.clock.advance(60)
    await scene.until(lambda: scene.received == ["first", "second"])


async def test_what_cannot_be_taken_is_said_and_keeps_nobody_out(scene: InputScene) -> None:
    scene.reception.refusal = WrongInput("notes.txt is empty.")
    seen = scene.say("look")
    await scene.until(lambda: scene.channel.texts == ["notes.txt is empty."])
    await scene.until(lambda: scene.last_seen == seen.ref)
    scene.reception.refusal = None
    scene.say("hello")
    await scene.until(lambda: scene.received == ["hello"])


async def test_nor_does_a_fault_of_our_own(scene: InputScene) -> None:
    scene.reception.refusal = ZeroDivisionError()
    scene.say("look")
    await scene.until(lambda: scene.channel.texts == [NOT_TAKEN])
    scene.reception.refusal = None
    scene.say("hello")
    await scene.until(lambda: scene.received == ["hello"])


async def test_a_message_without_words_is_answered_honestly(scene: InputScene) -> None:
    seen = scene.say("  ")
    await scene.until(lambda: scene.channel.texts == [NOTHING_TO_READ])
    await scene.until(lambda: scene.last_seen == seen.ref)
    assert scene.received == []


async def test_that_the_owner_cannot_be_told_stops_nothing(scene: InputScene) -> None:
    scene.channel.fail("send", Unreachable("There is no network."))
    scene.say("")
    scene.say("hello")
    await scene.until(lambda: scene.received == ["hello"])
    assert scene.channel.texts == []


async def test_a_reply_is_to_the_message_that_the_log_knows(scene: InputScene) -> None:
    ours = await scene.reception.say("Shall I?")
    scene.reception.show_on("discord", "71 72", ours.id)
    scene.say("yes", reply_to="72", quote="Shall I?")
    await scene.until(lambda: scene.received)
    [incoming] = scene.reception.received
    assert (incoming.reply_to, incoming.quote) == (ours.id, "")


async def test_and_else_its_words_come_with_it(scene: InputScene) -> None:
    scene.say("yes", reply_to="72", quote="Shall I?")
    await scene.until(lambda: scene.received)
    [incoming] = scene.reception.received
    assert (incoming.reply_to, incoming.quote) == (None, "Shall I?")


async def test_what_waits_is_still_there_after_it_was_stopped(tmp_path: Path) -> None:
    scene = InputScene(tmp_path)
    scene.reception.refusal = FULL
    async with scene.taking():
        scene.say("hello")
        await scene.until_asleep()
    scene.reception.refusal = None
    async with scene.taking():
        await scene.until(lambda: scene.received == ["hello"])
