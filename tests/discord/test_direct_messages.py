"""The owner's direct messages through the real discord.py, over loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from devtools.localdiscord.server import LocalDiscord
from tests.discord.connection_scene import ConnectionScene, connection_scene

from ollim_bot.domain.cards import Button, Card, CardField, Color
from ollim_bot.domain.chat import Attachment, Author, ChatMessage
from ollim_bot.domain.ids import MessageId
from ollim_bot.errors import DeliveryFailed
from ollim_bot.surfaces.discord.rendering import (
    GOES_ON_IN_FILE,
    OutgoingMessage,
    outgoing_of,
    parts_of,
    without_previews,
)

NONCE = "a" * 24
CARD = Card(
    "Tea",
    "is ready",
    Color.GREEN,
    (CardField("Sort", "Sencha", inline=True),),
    (Button("Done", "done", "1"), Button("Later", "snooze", "1", is_used=True)),
)


@pytest.fixture
async def scene() -> AsyncIterator[ConnectionScene]:
    async with connection_scene(LocalDiscord()) as made, made.served():
        yield made


def kept(name: str, size: int = 3) -> Attachment:
    return Attachment(name, f"state/attachments/{name}", "text/plain", size)


async def test_a_letter_arrives_with_all_that_is_in_it(scene: ConnectionScene) -> None:
    scene.files["state/attachments/a.txt"] = b"abc"
    ref = await scene.dm.send(OutgoingMessage("Here.", CARD, "small", (kept("a.txt"),)), NONCE)

    (message,) = scene.local.said
    (embed,) = message.embeds
    assert (message.id, message.text, message.nonce) == (ref, "Here.", NONCE)
    assert (embed["title"], embed["description"]) == ("Tea", "is ready")
    assert [(each["name"], each["value"]) for each in embed["fields"]] == [("Sort", "Sencha")]
    assert embed["footer"]["text"] == "small"
    assert [(each.name, each.content) for each in message.files] == [("a.txt", b"abc")]


async def test_a_used_button_cannot_be_pressed(scene: ConnectionScene) -> None:
    ref = await scene.dm.send(OutgoingMessage(card=CARD), NONCE)

    buttons = scene.local.message(ref).buttons
    assert [each["custom_id"] for each in buttons] == ["act:done:1", "act:snooze:1"]
    assert [bool(each.get("disabled")) for each in buttons] == [False, True]


async def test_nobody_is_called_by_what_is_said(scene: ConnectionScene) -> None:
    ref = await scene.dm.send(OutgoingMessage("@everyone"), NONCE)
    await scene.dm.edit(ref, OutgoingMessage("@here"))

    said = (each for each in scene.local.requests if each.method in ("POST", "PATCH"))
    bodies = [each.body for each in said if "messages" in each.path]
    assert [each["allowed_mentions"]["parse"] for each in bodies] == [[], []]


async def test_what_is_sent_again_stands_there_once(scene: ConnectionScene) -> None:
    refs = {await scene.dm.send(OutgoingMessage("Once."), NONCE) for _ in range(2)}
    assert [each.id for each in scene.local.said] == list(refs)


async def test_a_text_that_is_too_long_is_sent_as_a_file(scene: ConnectionScene) -> None:
    text = "# Tea\n" * 20_000 + "\ud83d"
    said = ChatMessage(MessageId("1"), datetime(2026, 1, 1, tzinfo=UTC), Author.ASSISTANT, text)
    outgoing = outgoing_of(parts_of(said)[-1])
    ref = await scene.dm.send(outgoing, NONCE)
    [message] = scene.local.said
    content = text.encode(errors="replace")
    assert (message.text, ref) == (f"-# {GOES_ON_IN_FILE}", str(message.id))
    assert [(each.name, each.content) for each in message.files] == [("message.md", content)]


async def test_an_edit_replaces_all_but_the_files(scene: ConnectionScene) -> None:
    scene.files["state/attachments/a.txt"] = b"abc"
    ref = await scene.dm.send(OutgoingMessage("Before.", CARD, files=(kept("a.txt"),)), NONCE)
    await scene.dm.edit(ref, OutgoingMessage("After."))

    message = scene.local.message(ref)
    assert (message.text, message.embeds, message.buttons) == ("After.", [], [])
    assert [each.name for each in message.files] == ["a.txt"]

    await scene.dm.edit(ref, OutgoingMessage("Now.", buttons=CARD.buttons[:1]))
    assert (message.text, message.embeds, len(message.buttons)) == ("Now.", [], 1)

    await scene.dm.edit(ref, OutgoingMessage(card=CARD))
    assert (message.text, len(message.embeds), len(message.buttons)) == ("", 1, 2)


async def test_what_is_gone_can_be_deleted_and_not_edited(scene: ConnectionScene) -> None:
    ref = await scene.dm.send(OutgoingMessage("Away."), NONCE)
    await scene.dm.delete(ref)
    await scene.dm.delete(ref)
    assert scene.local.said == []
    with pytest.raises(DeliveryFailed, match=r"^That message is gone\.$"):
        await scene.dm.edit(ref, OutgoingMessage("Back."))


async def test_a_mark_is_put_and_taken_away(scene: ConnectionScene) -> None:
    ref = scene.local.say("hello")
    await scene.dm.mark(ref, "👀")
    (seen,) = await scene.dm.newest(1)
    assert seen.marks == {"👀"}

    await scene.dm.unmark(ref, "👀")
    (seen,) = await scene.dm.newest(1)
    assert seen.marks == frozenset()


async def test_a_mark_of_the_owners_is_not_ours(scene: ConnectionScene) -> None:
    scene.local.react(scene.local.say("hello"), "👀")
    (seen,) = await scene.dm.newest(1)
    assert seen.marks == frozenset()


async def test_the_bot_is_seen_to_type(scene: ConnectionScene) -> None:
    await scene.dm.show_typing()
    assert len(scene.local.typing) == 1


async def test_what_stands_there_is_read_as_it_is(scene: ConnectionScene) -> None:
    ours = await scene.dm.send(OutgoingMessage(card=CARD), NONCE)
    theirs = scene.local.say("Thanks.", reply_to=ours, files={"a.txt": b"abc"})
    scene.local.edit(theirs, "Thank you.")
    first, second = await scene.dm.newest(5)

    assert (first.ref, first.is_ours, first.is_owners) == (ours, True, False)
    assert (first.text, first.nonce, first.is_edited) == (CARD.text, NONCE, False)
    assert (first.has_card, first.has_buttons) == (True, True)
    assert (second.ref, second.is_ours, second.is_owners) == (theirs, False, True)
    assert (second.text, second.is_edited, second.has_card) == ("Thank you.", True, False)
    assert (second.reply_to, second.quote) == (ours, CARD.text)
    assert [(each.name, each.size) for each in second.files] == [("a.txt", 3)]


async def test_a_reply_to_what_is_gone_has_no_words_to_quote(scene: ConnectionScene) -> None:
    ours = await scene.dm.send(OutgoingMessage("Away."), NONCE)
    scene.local.say("What was that?", reply_to=ours)
    await scene.dm.delete(ours)
    (seen,) = await scene.dm.newest(1)
    assert (seen.reply_to, seen.quote) == (ours, "")


async def test_buttons_that_are_all_used_are_none(scene: ConnectionScene) -> None:
    used = Card("Tea", buttons=(Button("Done", "done", is_used=True),))
    await scene.dm.send(OutgoingMessage(card=used), NONCE)
    (seen,) = await scene.dm.newest(1)
    assert not seen.has_buttons


async def test_all_that_came_after_is_found_however_many(scene: ConnectionScene) -> None:
    refs = [scene.local.say(str(number)) for number in range(230)]
    found = await scene.dm.after(refs[3])
    assert [each.ref for each in found] == refs[4:]
    assert [each.ref for each in await scene.dm.newest(1000)] == refs[-100:]


async def wait_in_turn(scene: ConnectionScene) -> None:
    pause = scene.dm.pause_before_edit()
    while pause > 0:
        await asyncio.sleep(pause)
        pause = scene.dm.pause_before_edit()


async def test_edits_keep_their_pace_and_a_place_for_what_matters(scene: ConnectionScene) -> None:
    """No edit waits in the own queue of discord.py, where the last one would wait for seconds."""
    loop = asyncio.get_running_loop()
    scene.local.allowance(5, 3.0)
    ref = await scene.dm.send(OutgoingMessage("0"), NONCE)
    waits = []
    for number in range(1, 8):
        await wait_in_turn(scene)
        began = loop.time()
        await scene.dm.edit(ref, OutgoingMessage(str(number)))
        if number % 3 == 0:
            await scene.dm.send(OutgoingMessage("urgent"), f"{number:024}")
        waits.append(loop.time() - began)

    assert scene.local.rate_limited == 0
    assert max(waits) < 2


SUPPRESS_EMBEDS = 1 << 2


async def test_no_address_is_fetched_for_a_preview_until_it_may_be(scene: ConnectionScene) -> None:
    """Also in an edit, which must not hide the card that it brings."""
    shown = OutgoingMessage("See https://evil.example/?q=hunter2")
    hidden = without_previews(shown.text)
    refs = [
        await scene.dm.send(each, f"{number:024}") for number, each in enumerate((shown, hidden))
    ]
    assert [scene.local.message(ref).flags & SUPPRESS_EMBEDS for ref in refs] == [
        0,
        SUPPRESS_EMBEDS,
    ]
    for change in (hidden, shown, OutgoingMessage(card=CARD)):
        await scene.dm.edit(refs[1], change)
        is_hidden = bool(scene.local.message(refs[1]).flags & SUPPRESS_EMBEDS)
        assert is_hidden is not change.has_previews
    assert without_previews("no address") == OutgoingMessage("no address")
