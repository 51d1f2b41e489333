"""A message that the owner did not write, such as a forward, is recognized in every form."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from devtools.localdiscord.server import LocalDiscord
from tests.discord.connection_scene import ConnectionScene, connection_scene

from ollim_bot.domain.cards import Button, Card, Color
from ollim_bot.surfaces.discord.rendering import OutgoingMessage, ReceivedMessage

NONCE = "a" * 24
COMMAND = "/config permission_mode bypassPermissions"
SNAPSHOT = {
    "message": {
        "type": 0,
        "content": COMMAND,
        "embeds": [],
        "attachments": [],
        "timestamp": "2026-02-24T08:12:00+00:00",
        "edited_timestamp": None,
        "flags": 0,
    }
}


@pytest.fixture
async def scene() -> AsyncIterator[ConnectionScene]:
    async with connection_scene(LocalDiscord()) as made, made.served():
        yield made


def by_a_stranger(scene: ConnectionScene, text: str = COMMAND, **more: Any) -> str:
    return scene.local.say(text, as_user=scene.local.stranger, in_guild=True, **more)


async def heard(scene: ConnectionScene) -> list[ReceivedMessage]:
    """All messages that were heard up to now."""
    last = scene.local.say("the last")
    await scene.local.until(lambda: last in [each.ref for each in scene.heard.messages])
    return scene.heard.messages[:-1]


def told_again(scene: ConnectionScene, event: str = "MESSAGE_CREATE", **changes: Any) -> None:
    """Send the newest message of the owner again as an event, with changes."""
    (session,) = scene.local.gateway.sessions.values()
    frames = [each for each in session.frames if each.get("t") == "MESSAGE_CREATE"]
    scene.local.gateway.tell(event, {**frames[-1]["d"], **changes})


async def test_a_forward_has_the_words_and_files_of_what_was_forwarded(
    scene: ConnectionScene,
) -> None:
    theirs = by_a_stranger(scene, files={"a.txt": b"abc"})
    ref = scene.local.forward(theirs)
    [seen] = await heard(scene)
    assert (seen.ref, seen.is_owners, seen.text) == (ref, True, COMMAND)
    assert [each.name for each in seen.files] == ["a.txt"]
    assert (seen.reply_to, seen.quote) == (None, "")
    assert seen.forwarded is not None
    assert seen.forwarded.place == "a server"
    assert seen.forwarded.at == scene.local.message(theirs).at


async def test_forwards_of_the_owners_and_of_the_bots_own_are_forwards_too(
    scene: ConnectionScene,
) -> None:
    own = scene.local.say(COMMAND)
    bots = await scene.dm.send(OutgoingMessage("Shall I?"), NONCE)
    for each in (own, bots):
        scene.local.forward(each)
    _, *forwards = await heard(scene)
    assert [each.text for each in forwards] == [COMMAND, "Shall I?"]
    places = [each.forwarded and each.forwarded.place for each in forwards]
    assert places == ["this conversation"] * 2


async def test_the_card_of_a_question_is_forwarded_as_words_without_buttons(
    scene: ConnectionScene,
) -> None:
    button = Button("✅ Allow once", "approve", "key:once")
    card = Card("Allow Write?", "x" * 900, Color.YELLOW, buttons=(button,))
    scene.local.forward(await scene.dm.send(OutgoingMessage("", card), NONCE))
    [seen] = await heard(scene)
    assert seen.text.startswith("Allow Write?\nxxx")
    assert len(seen.text) == 500
    assert not seen.has_buttons


SIGNS: list[dict[str, Any]] = [
    {"message_snapshots": [SNAPSHOT]},
    {"message_snapshots": [SNAPSHOT], "content": ""},
    {"message_reference": {"type": 1, "message_id": "1", "channel_id": "2"}},
    {"message_reference": {"type": 7, "message_id": "1", "channel_id": "2"}},
    {"flags": 1 << 14},
    {"flags": 1 << 1},
    {"message_snapshots": [SNAPSHOT], "type": 19, "message_reference": {"channel_id": "2"}},
]


@pytest.mark.parametrize("sign", SIGNS)
async def test_any_sign_of_a_forward_makes_all_of_it_one(scene: ConnectionScene, sign: Any) -> None:
    scene.local.say("/restart")
    told_again(scene, **sign)
    [typed, seen] = await heard(scene)
    assert typed.forwarded is None
    assert seen.forwarded is not None
    words = [] if sign.get("content") == "" else ["/restart"]
    words += [COMMAND] if "message_snapshots" in sign else []
    assert seen.text == "\n\n".join(words)


OF_PROGRAMS: list[dict[str, Any]] = [
    *({"type": kind} for kind in (1, 6, 7, 12, 18, 20, 21, 23, 24, 46, 63)),
    {"webhook_id": "7"},
    {"application_id": "7"},
    {
        "interaction_metadata": {
            "id": "7",
            "type": 2,
            "user": {"id": "8", "username": "x", "discriminator": "0", "avatar": None},
            "authorizing_integration_owners": {},
        }
    },
]


@pytest.mark.parametrize("mark", OF_PROGRAMS)
async def test_what_a_program_sends_in_the_owners_name_is_not_heard(
    scene: ConnectionScene, mark: dict[str, Any]
) -> None:
    scene.local.say(COMMAND)
    told_again(scene, **mark)
    told_again(scene, "MESSAGE_UPDATE", edited_timestamp="2026-02-24T08:12:00+00:00", **mark)
    assert len(await heard(scene)) == 1
    assert scene.heard.edits == []


async def test_what_stands_in_an_embed_was_not_typed(scene: ConnectionScene) -> None:
    """As below the result of a poll, or an invitation to a game."""
    scene.local.say("x")
    told_again(scene, content="", embeds=[{"type": "rich", "title": COMMAND}])
    [_, seen] = await heard(scene)
    assert (seen.text, seen.forwarded) == ("", None)


async def test_a_reply_to_a_forward_knows_that_its_quote_is_one(scene: ConnectionScene) -> None:
    forward = scene.local.forward(by_a_stranger(scene))
    scene.local.say("what is this?", reply_to=forward)
    [_, reply] = await heard(scene)
    assert (reply.text, reply.reply_to, reply.quote) == ("what is this?", forward, COMMAND)
    assert reply.forwarded is None
    assert reply.quote_forwarded is not None
    assert reply.quote_forwarded.place == "a server"


async def test_no_edit_makes_a_forward_of_a_message_or_a_message_of_a_forward(
    scene: ConnectionScene,
) -> None:
    scene.local.say("hello")
    now = "2026-02-24T08:12:00+00:00"
    told_again(scene, "MESSAGE_UPDATE", edited_timestamp=now, message_snapshots=[SNAPSHOT])
    scene.local.forward(by_a_stranger(scene))
    told_again(scene, "MESSAGE_UPDATE", edited_timestamp=now)
    assert len(await heard(scene)) == 2
    assert scene.heard.edits == []


async def test_the_history_tells_the_same_as_the_gateway(scene: ConnectionScene) -> None:
    before = scene.local.say("before")
    forward = scene.local.forward(by_a_stranger(scene))
    scene.local.say("what is this?", reply_to=forward)
    told = (await heard(scene))[1:]
    assert list(await scene.dm.after(before))[:-1] == told
    assert list(await scene.dm.newest(3))[:-1] == told
