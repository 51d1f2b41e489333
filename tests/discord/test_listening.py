"""Only the owner is heard on Discord, and only in the direct messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from devtools.localdiscord.server import LocalDiscord
from tests.discord.connection_scene import ConnectionScene, connection_scene

from ollim_bot.surfaces.discord.client import ELSEWHERE, NOT_AUTHORIZED
from ollim_bot.surfaces.discord.rendering import OutgoingMessage

NONCE = "a" * 24
COMMAND = {
    "name": "cost",
    "description": "What it cost",
    "type": 1,
    "options": [{"name": "since", "description": "When", "type": 3, "autocomplete": True}],
}


@pytest.fixture
async def scene() -> AsyncIterator[ConnectionScene]:
    async with connection_scene(LocalDiscord()) as made, made.served():
        yield made


async def heard_out(scene: ConnectionScene) -> None:
    """Wait until all events up to now have been heard."""
    last = scene.local.say("the last")
    await scene.local.until(lambda: last in [each.ref for each in scene.heard.messages])
    scene.heard.messages.pop()


def told_again(scene: ConnectionScene, event: str, **changes: Any) -> None:
    """Send the newest message again as an event, with changes."""
    (session,) = scene.local.gateway.sessions.values()
    body = session.frames[-1]["d"]
    scene.local.gateway.tell(event, {**body, **changes})


async def test_the_owners_messages_are_heard_in_their_order(scene: ConnectionScene) -> None:
    said = [scene.local.say(str(number)) for number in range(50)]
    await scene.local.until(lambda: len(scene.heard.messages) == 50)
    assert [each.ref for each in scene.heard.messages] == said
    assert all(each.is_owners for each in scene.heard.messages)


async def test_nobody_elses_messages_are_heard(scene: ConnectionScene) -> None:
    scene.local.say("let me in", as_user=scene.local.stranger)
    scene.local.say("in public", in_guild=True)
    scene.local.say("by a stranger", as_user=scene.local.stranger, in_guild=True)
    await scene.dm.send(OutgoingMessage("by the bot"), NONCE)
    await heard_out(scene)
    told_again(scene, "MESSAGE_CREATE", channel_id="7")
    told_again(scene, "MESSAGE_CREATE", channel_id="7", guild_id="8")
    await heard_out(scene)
    assert scene.heard.messages == []


async def test_what_the_owner_changes_is_heard(scene: ConnectionScene) -> None:
    ref = scene.local.say("helo")
    scene.local.edit(ref, "hello")
    scene.local.react(ref, "👍")
    scene.local.delete(ref)
    await heard_out(scene)
    assert scene.heard.edits == [(ref, "hello")]
    assert scene.heard.reactions == [(ref, "👍")]
    assert scene.heard.deletions == [ref]


async def test_what_others_change_is_not_heard(scene: ConnectionScene) -> None:
    stranger = scene.local.stranger
    ours = await scene.dm.send(OutgoingMessage("Before."), NONCE)
    await scene.dm.edit(ours, OutgoingMessage("After."))
    await scene.dm.mark(ours, "👀")
    theirs = scene.local.say("helo", as_user=stranger)
    scene.local.edit(theirs, "hello")
    scene.local.react(theirs, "👍", as_user=stranger)
    scene.local.react(ours, "👍", as_user=stranger)
    scene.local.delete(theirs)
    await heard_out(scene)
    assert (scene.heard.edits, scene.heard.reactions, scene.heard.deletions) == ([], [], [])


async def test_a_preview_of_a_link_is_neither_an_edit_nor_a_card(scene: ConnectionScene) -> None:
    scene.local.say("https://example.org")
    preview = {"title": "Example", "type": "article"}
    told_again(scene, "MESSAGE_UPDATE", embeds=[preview])
    told_again(scene, "MESSAGE_CREATE", embeds=[preview])
    await heard_out(scene)
    assert scene.heard.edits == []
    assert [each.has_card for each in scene.heard.messages] == [False, False]


async def test_what_nobody_wrote_is_not_heard(scene: ConnectionScene) -> None:
    """For example the notice that a message was pinned."""
    scene.local.say("hello")
    told_again(scene, "MESSAGE_CREATE", type=6, content="")
    await heard_out(scene)
    assert scene.heard.words == ["hello"]


async def put_command(scene: ConnectionScene) -> None:
    session = scene.connection.session
    assert session is not None
    await session.client.http.bulk_upsert_global_commands(session.us, [COMMAND])


async def test_the_owners_commands_and_clicks_are_handed_on(scene: ConnectionScene) -> None:
    await put_command(scene)
    scene.local.slash("cost")
    scene.local.press(scene.local.message(scene.local.say("x")), "act:done:1")
    await scene.local.until(lambda: len(scene.heard.interactions) == 2)


async def test_a_command_of_somebody_else_is_declined(scene: ConnectionScene) -> None:
    await put_command(scene)
    asked = scene.local.slash("cost", as_user=scene.local.stranger)
    elsewhere = scene.local.slash("cost", as_user=scene.local.stranger, in_guild=True)
    owners = scene.local.slash("cost", in_guild=True)
    await scene.local.until(lambda: asked.answer and elsewhere.answer and owners.answer)
    answers = [asked, elsewhere, owners]
    assert [each.text for each in answers] == [NOT_AUTHORIZED, NOT_AUTHORIZED, ELSEWHERE]
    assert all(each.is_ephemeral for each in answers)
    assert scene.heard.interactions == []


async def test_a_click_of_somebody_else_does_nothing_and_nothing_is_proposed_to_them(
    scene: ConnectionScene,
) -> None:
    await put_command(scene)
    stranger = scene.local.stranger
    ref = scene.local.say("x")
    pressed = scene.local.press(scene.local.message(ref), "act:done:1", as_user=stranger)
    typed = scene.local.complete("cost", "since", "", as_user=stranger)
    later = scene.local.slash("cost", as_user=stranger)
    await scene.local.until(lambda: later.answer)
    assert scene.heard.interactions == []
    assert (pressed.answer, typed.answer) == (None, None)
