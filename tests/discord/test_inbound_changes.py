"""What is edited or deleted before it is taken is taken as edited, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from devtools.doubles.reception import FakeReception
from tests.discord.input_scene import FULL, InputScene, file, listening

from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.inbox import InputId
from ollim_bot.surfaces.discord.rendering import input_of


class FullReception(FakeReception):
    is_full = False

    async def edit(self, input_id: InputId, text: str) -> bool:
        if self.is_full:
            raise FULL
        return await super().edit(input_id, text)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[InputScene]:
    async with listening(tmp_path) as scene:
        yield scene


async def test_a_message_that_waits_is_taken_as_edited_or_withdrawn(scene: InputScene) -> None:
    edited, deleted = scene.say("old"), scene.say("oops")
    await scene.until(lambda: len(scene.received) == 2)
    scene.reception.waiting = {input_of(edited.ref), input_of(deleted.ref)}
    scene.inbound.edited(edited.ref, "new")
    scene.inbound.deleted(deleted.ref)
    await scene.until(lambda: scene.reception.waiting == {input_of(edited.ref)})
    message = await scene.reception.message(MessageId(input_of(edited.ref)))
    assert message is not None
    assert message.text == "new"


async def test_so_is_one_that_was_not_taken_in_yet(scene: InputScene) -> None:
    scene.channel.may_answer.clear()
    first = scene.say("first", files=(file(scene, "a.png"),))
    edited, deleted = scene.say("old"), scene.say("oops")
    await scene.until(lambda: ("fetch", "a.png") in scene.channel.calls)
    scene.inbound.edited(first.ref, "first, edited")
    scene.inbound.edited(edited.ref, "new")
    scene.inbound.deleted(deleted.ref)
    fence = scene.say("fence")
    scene.channel.may_answer.set()
    await scene.until(lambda: scene.last_seen == fence.ref)
    assert scene.received == ["first, edited", "new", "fence"]


async def test_one_that_is_edited_while_it_is_received_is_edited_after_that(
    scene: InputScene,
) -> None:
    seen = scene.channel.say("old")

    def edit_meanwhile(_: object) -> None:
        scene.reception.waiting.add(input_of(seen.ref))
        scene.inbound.edited(seen.ref, "new")

    scene.reception.on_message = edit_meanwhile
    scene.inbound.message(seen)
    await scene.until(lambda: [each.text for each in scene.reception.messages] == ["new"])


async def test_one_that_is_deleted_while_it_is_received_is_withdrawn_after_that(
    scene: InputScene,
) -> None:
    seen = scene.channel.say("oops")

    def delete_meanwhile(_: object) -> None:
        scene.reception.waiting.add(input_of(seen.ref))
        scene.inbound.deleted(seen.ref)

    scene.reception.on_message = delete_meanwhile
    scene.inbound.message(seen)
    await scene.until(lambda: scene.received and not scene.reception.waiting)
    assert ("mark", seen.ref) not in scene.channel.calls


async def test_the_mark_of_one_that_was_deleted_is_left_alone(scene: InputScene) -> None:
    seen = scene.say("oops")
    await scene.until(lambda: scene.is_marked(seen))
    del scene.channel.owner[seen.ref]
    scene.inbound.deleted(seen.ref)
    fence = scene.say("fence")
    await scene.until(lambda: scene.is_marked(fence))
    scene.pending_reaction.close_all()
    await scene.until(lambda: not scene.is_marked(fence))
    assert ("unmark", seen.ref) not in scene.channel.calls


async def test_a_change_waits_for_a_disk_that_refuses(tmp_path: Path) -> None:
    scene = InputScene(tmp_path)
    scene.reception = reception = FullReception(scene.clock, tmp_path)
    scene.restart()
    async with scene.taking():
        seen = scene.say("old")
        await scene.until(lambda: scene.received)
        reception.waiting = {input_of(seen.ref)}
        reception.is_full = True
        scene.inbound.edited(seen.ref, "new")
        await scene.until_asleep()
        reception.is_full = False
        await scene.clock.advance(1)
        await scene.until(lambda: reception.messages[0].text == "new")
