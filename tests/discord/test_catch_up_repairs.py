"""What changed while the bot was away is repaired at its start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.discord.input_scene import POLL, SILENT, InputScene, until_next_poll

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.ids import MessageId
from ollim_bot.surfaces.discord.rendering import OutgoingMessage, ReceivedMessage, input_of
from ollim_bot.surfaces.discord.status_line import EYES


@pytest.fixture
def scene(tmp_path: Path) -> InputScene:
    return InputScene(tmp_path)


async def waiting(scene: InputScene, *texts: str) -> list[ReceivedMessage]:
    """Messages that an earlier run has accepted and not answered yet."""
    scene.channel.say("before")
    said = []
    for text in texts:
        seen = scene.channel.say(text)
        said.append(seen)
        name = MessageId(input_of(seen.ref))
        await scene.reception.post(ChatMessage(name, scene.clock.now(), Author.OWNER, text))
        scene.reception.show_on("discord", seen.ref, name)
        scene.reception.waiting.add(input_of(seen.ref))
    ref = said[-1].ref
    scene.store.run(lambda tx: tx.discord.change(lambda state: state.seen(ref)))
    await scene.reception.change(is_busy=True)
    return said


async def test_changes_of_what_waits_that_were_missed_are_found(scene: InputScene) -> None:
    edited, same, gone = await waiting(scene, "old", "same", "oops")
    scene.channel.owner[edited.ref] = replace(edited, text="new", is_edited=True)
    del scene.channel.owner[gone.ref]
    await scene.clock.advance(31)
    scene.catch_up.ready()
    async with scene.running():
        kept = {input_of(edited.ref), input_of(same.ref)}
        await scene.until(lambda: scene.reception.waiting == kept)
        await scene.until(lambda: scene.reception.messages[0].text == "new")
    assert scene.reception.messages[1].text == "same"


async def test_one_that_came_a_moment_ago_is_not_taken_for_deleted(scene: InputScene) -> None:
    [fresh] = await waiting(scene, "fresh")
    del scene.channel.owner[fresh.ref]
    scene.catch_up.ready()
    async with scene.running():
        await scene.until(lambda: ("newest", "50") in scene.channel.calls)
        await until_next_poll(scene)
        assert scene.reception.waiting == {input_of(fresh.ref)}
        await scene.clock.advance(POLL)
        await scene.until(lambda: scene.reception.waiting == set())


async def test_one_that_is_too_old_to_be_found_is_not_taken_for_deleted(scene: InputScene) -> None:
    old, new = await waiting(scene, "old", "new")
    for _ in range(99):
        await scene.channel.send(OutgoingMessage("chatter"), str(len(scene.channel.bot)))
    await scene.clock.advance(31)
    scene.catch_up.ready()
    async with scene.running():
        await scene.until(lambda: ("newest", "50") in scene.channel.calls)
        await until_next_poll(scene)
    assert scene.reception.waiting == {input_of(old.ref), input_of(new.ref)}


async def test_what_the_page_or_the_bot_has_said_is_never_taken_for_deleted(
    scene: InputScene,
) -> None:
    await waiting(scene, "hello")
    await scene.reception.say("on its way")
    deleted = await scene.reception.say("deleted by the owner")
    scene.reception.show_on("discord", "1900", deleted.id)
    await scene.reception.say("from the page", Author.OWNER)
    await scene.clock.advance(31)
    scene.catch_up.ready()
    async with scene.running():
        await scene.until(lambda: ("newest", "50") in scene.channel.calls)
        await until_next_poll(scene)
    assert len(scene.reception.waiting) == 1


async def test_marks_of_an_earlier_run_go_when_nothing_waits(scene: InputScene) -> None:
    seen = scene.channel.say("answered", marks=frozenset({EYES}))
    await scene.reception.change(is_busy=True)
    scene.catch_up.ready()
    async with scene.running():
        await scene.until(lambda: ("newest", "50") in scene.channel.calls)
        await until_next_poll(scene)
        assert scene.is_marked(seen)
        scene.pending_reaction.close_all()
        await scene.until(lambda: not scene.is_marked(seen))


async def test_and_at_once_if_nothing_does(scene: InputScene) -> None:
    seen = scene.channel.say("answered", marks=frozenset({EYES}))
    scene.catch_up.ready()
    async with scene.running():
        await scene.until(lambda: not scene.is_marked(seen))


async def test_what_could_not_be_mended_is_tried_again_and_holds_nobody_up(
    scene: InputScene,
) -> None:
    seen = scene.channel.say("answered", marks=frozenset({EYES}))
    scene.channel.fail("newest", None, SILENT, SILENT)
    scene.channel.fail("after", SILENT)
    scene.catch_up.ready()
    async with scene.running():
        await scene.until(lambda: ("newest", "50") in scene.channel.calls)
        await scene.until_asleep()
        await scene.clock.advance(1)
        scene.say("hello")
        await scene.until(lambda: scene.received == ["hello"])
        assert scene.is_marked(seen)
        await scene.until_asleep()
        await scene.clock.advance(2)
        await scene.until(lambda: not scene.is_marked(seen))
