"""The owner's direct messages through the real discord.py, over loopback."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from devtools.localdiscord.faults import AnswerHanging, AnswerLost, Dropped, ErrorResponse, Fault
from devtools.localdiscord.server import LocalDiscord
from discord.http import Route
from tests.surfaces.discord.connection_scene import ConnectionScene, connection_scene

from ollim_bot.kernel.base.errors import (
    DeliveryFailed,
    DeliveryUncertain,
    OllimError,
    Unreachable,
    WriteFailed,
)
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.values.cards import Button, Card, CardField, Color
from ollim_bot.kernel.values.chat import Attachment, Author, ChatMessage
from ollim_bot.surfaces.discord.client import ELSEWHERE, NOT_AUTHORIZED
from ollim_bot.surfaces.discord.errors import reading, writing
from ollim_bot.surfaces.discord.rendering import (
    GOES_ON_IN_FILE,
    HistoryHidden,
    OutgoingMessage,
    ReceivedMessage,
    RemoteFile,
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


async def test_a_mark_is_put_and_taken_away_and_one_of_the_owners_is_not_ours(
    scene: ConnectionScene,
) -> None:
    ref = scene.local.say("hello")
    scene.local.react(ref, "🎉")
    await scene.dm.mark(ref, "👀")
    (seen,) = await scene.dm.newest(1)
    assert seen.marks == {"👀"}

    await scene.dm.unmark(ref, "👀")
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


SEND, EDIT, READ = "POST /channels/*/messages", "PATCH /channels/*", "GET /channels/*/messages"

REFUSALS = [
    (400, DeliveryFailed),
    (401, Unreachable),
    (403, DeliveryFailed),
    (404, DeliveryFailed),
    (413, DeliveryFailed),
    (503, DeliveryUncertain),
    (ErrorResponse(429, after=100.0), Unreachable),
    (Dropped(), DeliveryUncertain),
    (AnswerLost(), DeliveryUncertain),
]


@pytest.mark.parametrize(("fault", "error"), REFUSALS)
async def test_a_failure_to_send_or_edit_says_what_is_certain(
    scene: ConnectionScene, fault: Fault | int, error: type[OllimError]
) -> None:
    ref = await scene.dm.send(OutgoingMessage("Before."), "b" * 24)
    scene.local.next_fail(SEND, fault)
    scene.local.next_fail(EDIT, fault)
    with pytest.raises(error):
        await scene.dm.send(OutgoingMessage("Hello."), NONCE)
    with pytest.raises(error):
        await scene.dm.edit(ref, OutgoingMessage("After."))


@pytest.mark.parametrize(
    "fault", [400, 401, 403, 404, 503, ErrorResponse(429, after=100.0), Dropped()]
)
async def test_what_cannot_be_read_is_out_of_reach(
    scene: ConnectionScene, fault: Fault | int
) -> None:
    ref = scene.local.say("hello")
    scene.local.next_fail(READ, fault, times=None)
    with pytest.raises(Unreachable) as silent:
        await scene.dm.newest(5)
    assert isinstance(silent.value, HistoryHidden) == (fault in (400, 403, 404))
    with pytest.raises(Unreachable):
        await scene.dm.after(ref)


async def test_what_never_got_through_was_not_sent_for_certain(scene: ConnectionScene) -> None:
    ref = await scene.dm.send(OutgoingMessage("Before."), "b" * 24)
    with socket.socket() as closed_port:
        closed_port.bind(("127.0.0.1", 0))
        Route.BASE = f"http://127.0.0.1:{closed_port.getsockname()[1]}/api/v10"
        with pytest.raises(Unreachable):
            await scene.dm.send(OutgoingMessage("Hello."), NONCE)
        with pytest.raises(Unreachable):
            await scene.dm.edit(ref, OutgoingMessage("After."))


async def test_what_failed_in_an_unknown_way_before_it_was_refused_may_have_arrived(
    scene: ConnectionScene,
) -> None:
    scene.local.next_fail(SEND, 502)
    scene.local.next_fail(SEND, 403)
    with pytest.raises(DeliveryUncertain):
        await scene.dm.send(OutgoingMessage("Hello."), NONCE)


async def test_a_refusal_says_why(scene: ConnectionScene) -> None:
    with pytest.raises(DeliveryFailed, match=r"^Discord refused it: In content: .*2000"):
        await scene.dm.send(OutgoingMessage("x" * 2001), NONCE)
    scene.local.next_fail(SEND, 413)
    with pytest.raises(DeliveryFailed, match="does not take a file of that size"):
        await scene.dm.send(OutgoingMessage("Hello."), NONCE)


async def test_before_the_login_and_after_the_end_nothing_can_be_reached() -> None:
    async with connection_scene(LocalDiscord()) as scene:
        with pytest.raises(Unreachable):
            await scene.dm.send(OutgoingMessage("Hello."), NONCE)
        async with scene.served():
            session = scene.connection.session
            await scene.dm.send(OutgoingMessage("Hello."), NONCE)
        for channel in (scene.dm, scene.channel(lambda: session)):
            with pytest.raises(Unreachable):
                await channel.send(OutgoingMessage("Hello."), NONCE)
            with pytest.raises(Unreachable):
                await channel.newest(5)


async def test_a_call_under_way_when_the_connection_ends_does_not_hang() -> None:
    async with connection_scene(LocalDiscord()) as scene:
        async with scene.served():
            scene.local.next_fail(SEND, AnswerHanging())
            sending = asyncio.create_task(scene.dm.send(OutgoingMessage("Hello."), NONCE))
            await scene.local.until(lambda: scene.local.texts)
        with pytest.raises((DeliveryUncertain, Unreachable)):
            await asyncio.wait_for(sending, 30)


async def test_an_edit_can_be_cancelled_without_harm(scene: ConnectionScene) -> None:
    ref = await scene.dm.send(OutgoingMessage("Before."), NONCE)
    scene.local.next_fail(EDIT, AnswerHanging())
    editing = asyncio.create_task(scene.dm.edit(ref, OutgoingMessage("Between.")))
    await scene.local.until(lambda: scene.local.texts == ["Between."])
    editing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(editing, 30)

    await asyncio.wait_for(scene.dm.edit(ref, OutgoingMessage("After.")), 5)
    assert scene.local.texts == ["After."]


async def test_what_takes_too_long_ends() -> None:
    with pytest.raises(DeliveryUncertain):
        async with writing(0.01):
            await asyncio.Event().wait()
    with pytest.raises(Unreachable):
        async with reading(0.01):
            await asyncio.Event().wait()


async def test_a_mistake_of_our_own_is_not_taken_for_an_outage() -> None:
    with pytest.raises(RuntimeError, match="dictionary"):
        async with writing():
            raise RuntimeError("dictionary changed size during iteration")


async def test_a_file_that_is_gone_is_said_and_nothing_sent(scene: ConnectionScene) -> None:
    gone = Attachment("a.txt", "state/attachments/a.txt", "text/plain", 3)
    with pytest.raises(DeliveryFailed, match=r"`a\.txt`"):
        await scene.dm.send(OutgoingMessage("Here.", files=(gone,)), NONCE)
    assert scene.local.said == []


async def remote(scene: ConnectionScene, content: bytes) -> RemoteFile:
    scene.local.say(files={"a.txt": content})
    (seen,) = await scene.dm.newest(1)
    return seen.files[0]


async def test_a_file_is_fetched_whole(scene: ConnectionScene, tmp_path: Path) -> None:
    content = b"abc" * 200_000
    await scene.dm.fetch(await remote(scene, content), tmp_path / "a", len(content))
    assert (tmp_path / "a").read_bytes() == content


async def test_a_file_that_is_too_large_or_gone_leaves_nothing(
    scene: ConnectionScene, tmp_path: Path
) -> None:
    file = await remote(scene, b"abc")
    with pytest.raises(DeliveryFailed, match="too large"):
        await scene.dm.fetch(file, tmp_path / "a", 2)
    scene.local.state.files.clear()
    with pytest.raises(DeliveryFailed, match="not at Discord"):
        await scene.dm.fetch(file, tmp_path / "a", 3)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("fault", [Dropped(), ErrorResponse(503)])
async def test_a_file_that_cannot_be_had_now_leaves_nothing(
    scene: ConnectionScene, tmp_path: Path, fault: Fault
) -> None:
    file = await remote(scene, b"abc")
    scene.local.next_fail("GET /attachments/*", fault, times=None)
    with pytest.raises(Unreachable):
        await scene.dm.fetch(file, tmp_path / "a", 3)
    assert os.listdir(tmp_path) == []


async def test_a_disk_that_refuses_is_no_outage_of_discord(
    scene: ConnectionScene, tmp_path: Path
) -> None:
    file = await remote(scene, b"abc")
    with pytest.raises(WriteFailed):
        await scene.dm.fetch(file, tmp_path / "missing" / "a", 3)


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


def by_a_stranger(scene: ConnectionScene, text: str = COMMAND, **more: Any) -> str:
    return scene.local.say(text, as_user=scene.local.stranger, in_guild=True, **more)


async def heard(scene: ConnectionScene) -> list[ReceivedMessage]:
    """All messages that were heard up to now."""
    last = scene.local.say("the last")
    await scene.local.until(lambda: last in [each.ref for each in scene.heard.messages])
    scene.heard.messages.pop()
    return scene.heard.messages


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


COST_COMMAND = {
    "name": "cost",
    "description": "What it cost",
    "type": 1,
    "options": [{"name": "since", "description": "When", "type": 3, "autocomplete": True}],
}


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
    await heard(scene)
    told_again(scene, channel_id="7")
    told_again(scene, channel_id="7", guild_id="8")
    await heard(scene)
    assert scene.heard.messages == []


async def test_what_the_owner_changes_is_heard(scene: ConnectionScene) -> None:
    ref = scene.local.say("helo")
    scene.local.edit(ref, "hello")
    scene.local.react(ref, "👍")
    scene.local.delete(ref)
    await heard(scene)
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
    await heard(scene)
    assert (scene.heard.edits, scene.heard.reactions, scene.heard.deletions) == ([], [], [])


async def test_a_preview_of_a_link_is_neither_an_edit_nor_a_card(scene: ConnectionScene) -> None:
    scene.local.say("https://example.org")
    preview = {"title": "Example", "type": "article"}
    told_again(scene, "MESSAGE_UPDATE", embeds=[preview])
    told_again(scene, embeds=[preview])
    await heard(scene)
    assert scene.heard.edits == []
    assert [each.has_card for each in scene.heard.messages] == [False, False]


async def put_command(scene: ConnectionScene) -> None:
    session = scene.connection.session
    assert session is not None
    await session.client.http.bulk_upsert_global_commands(session.us, [COST_COMMAND])


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
