"""A forward is taken in as a quote of somebody else's, and is never a command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.discord.input_scene import SUNDAY, InputScene, after_an_earlier_run, listening

from ollim_bot.domain.taint import Untrusted
from ollim_bot.ports import IncomingMessage
from ollim_bot.surfaces.discord.inbound import NOTHING_TO_READ
from ollim_bot.surfaces.discord.rendering import Forwarded, ReceivedMessage

FORWARDED = Forwarded("a server", SUNDAY - timedelta(hours=1))
UNTRUSTED = Untrusted(
    "forwarded message",
    "a message that the owner forwarded from a server on Discord, written 2026-11-15 08:00. "
    "Discord does not say who wrote it.",
)
COMMANDS = ("/clear", "/model opus", " /clear", "/resume aa11", "/compact now\nplease")


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[InputScene]:
    async with listening(tmp_path) as scene:
        yield scene


def taken(scene: InputScene, seen: ReceivedMessage) -> IncomingMessage:
    return next(each for each in scene.reception.received if each.id.endswith(seen.ref))


async def test_a_forwarded_command_is_a_quote_and_nothing_is_run(scene: InputScene) -> None:
    said = [scene.say(text, forwarded=FORWARDED) for text in COMMANDS]
    await scene.until(lambda: scene.last_seen == said[-1].ref)
    assert scene.reception.calls == []
    assert [(each.text, each.untrusted) for each in scene.reception.received] == [
        (text, UNTRUSTED) for text in COMMANDS
    ]


async def test_the_owners_own_words_after_it_are_a_command_again(scene: InputScene) -> None:
    scene.say("/clear", forwarded=FORWARDED)
    scene.say("/clear")
    scene.say("what did they want?")
    await scene.until(lambda: scene.received == ["/clear", "what did they want?"])
    assert scene.reception.calls == ["/clear"]
    assert [each.untrusted for each in scene.reception.received] == [UNTRUSTED, None]


async def test_a_reply_to_a_forward_is_the_owners_own_with_a_quote_that_is_not(
    scene: InputScene,
) -> None:
    said = scene.say("what?", reply_to="7", quote="/clear", quote_forwarded=FORWARDED)
    await scene.until(lambda: scene.received)
    incoming = taken(scene, said)
    assert (incoming.untrusted, incoming.untrusted_quote) == (None, UNTRUSTED)
    assert incoming.quote == "/clear"


async def test_an_edit_leaves_a_forward_what_it_is(scene: InputScene) -> None:
    """A forward cannot be edited on Discord, so an edit event does not change it."""
    scene.store.may_write.clear()
    scene.say("/model opus")
    await scene.until(lambda: scene.store.begun)
    said = scene.say("hello", forwarded=FORWARDED)
    scene.inbound.edited(said.ref, "/clear")
    scene.store.may_write.set()
    await scene.until(lambda: scene.received == ["/clear"])
    assert taken(scene, said).untrusted == UNTRUSTED
    assert scene.reception.calls == ["/model opus"]


async def test_a_forward_without_words_or_files_gets_an_honest_sentence(scene: InputScene) -> None:
    scene.say("", forwarded=FORWARDED)
    await scene.until(lambda: scene.channel.texts == [NOTHING_TO_READ])


async def test_a_forward_that_was_missed_is_a_quote_too(tmp_path: Path) -> None:
    scene = InputScene(tmp_path)
    await after_an_earlier_run(scene)
    missed = scene.channel.say("/clear", forwarded=FORWARDED)
    scene.channel.say("hi", is_edited=True)
    scene.catch_up.ready()
    async with scene.running():
        await scene.until(lambda: scene.received == ["/clear", "hi"])
        assert taken(scene, missed).untrusted == UNTRUSTED
        assert scene.reception.calls == []


async def test_what_looks_like_an_edit_of_a_forward_is_not_read_back(tmp_path: Path) -> None:
    scene = InputScene(tmp_path)
    await after_an_earlier_run(scene)
    scene.catch_up.ready()
    await scene.reception.change(is_busy=True)
    async with scene.running():
        await scene.until(lambda: scene.clock.sleeping)
        said = scene.say("hello", forwarded=FORWARDED)
        await scene.until(lambda: scene.received == ["hello"])
        scene.reception.waiting.add(taken(scene, said).id)
        scene.channel.owner[said.ref] = scene.channel.say(
            "/clear", ref=said.ref, forwarded=FORWARDED, is_edited=True
        )
        scene.catch_up.ready()
        scene.say("next")
        await scene.until(lambda: scene.received == ["hello", "next"])
    assert [each.text for each in scene.reception.messages][-2:] == ["hello", "next"]
