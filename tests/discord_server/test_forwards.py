"""A forward is as Discord has it: an empty message with a snapshot that names no author."""

from __future__ import annotations

import discord
from devtools.localdiscord.server import LocalDiscord
from tests.discord_server.client import RecordingClient
from tests.discord_server.rest_client import RestClient


def _said_elsewhere(server: LocalDiscord, text: str, **more: bytes) -> str:
    return server.say(text, files=more, as_user=server.stranger, in_guild=True)


async def test_discord_py_reads_a_forward(server: LocalDiscord, client: RecordingClient) -> None:
    theirs = _said_elsewhere(server, "/clear", notes=b"words")
    server.forward(theirs)
    await client.until(lambda: client.heard)
    [heard] = client.heard
    assert str(heard.author.id) == server.owner.id
    assert (heard.content, heard.attachments, heard.embeds) == ("", [], [])
    assert heard.type is discord.MessageType.default
    assert heard.flags.forwarded
    assert heard.reference is not None
    assert heard.reference.type is discord.MessageReferenceType.forward
    assert heard.reference.resolved is None
    assert str(heard.reference.message_id) == theirs
    assert str(heard.reference.guild_id) == server.message(theirs).channel.guild_id
    [snapshot] = heard.message_snapshots
    assert snapshot.content == "/clear"
    assert await snapshot.attachments[0].read() == b"words"


async def test_nobody_is_named_and_the_snapshot_stays_as_it_was(rest: RestClient) -> None:
    server = rest.server
    theirs = _said_elsewhere(server, "before")
    forward = server.forward(theirs)
    server.edit(theirs, "after")
    server.delete(theirs)
    found = await rest.ask("GET", f"/channels/{rest.channel}/messages/{forward}")
    [listed] = (await rest.ask("GET", f"/channels/{rest.channel}/messages")).body
    assert listed == found.body
    [snapshot] = found.body["message_snapshots"]
    assert snapshot["message"]["content"] == "before"
    assert {"author", "id", "channel_id"}.isdisjoint(snapshot["message"])


async def test_a_reply_to_a_forward_shows_what_was_forwarded(
    server: LocalDiscord, client: RecordingClient
) -> None:
    forward = server.forward(server.say("mine"))
    server.say("what is that?", reply_to=forward)
    await client.until(lambda: len(client.heard) == 3)
    reference = client.heard[-1].reference
    assert reference is not None
    assert reference.type is discord.MessageReferenceType.reply
    assert isinstance(reference.resolved, discord.Message)
    assert reference.resolved.message_snapshots[0].content == "mine"
