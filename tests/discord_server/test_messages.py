"""Messages, forwards, reactions, files and history are as Discord has them."""

from __future__ import annotations

from typing import Any

import aiohttp
import discord
import pytest
from devtools.doubles.clock import ManualClock
from devtools.localdiscord.server import LocalDiscord
from tests.discord_server.client import RecordingClient
from tests.discord_server.rest_client import RestClient, bot_session


async def test_an_edit_is_held_to_the_same_limits(rest: RestClient) -> None:
    sent = (await rest.send("words")).body["id"]
    assert (await rest.edit(sent, content="x" * 2001)).code == 50035
    assert (await rest.edit(sent, content="")).code == 50006
    assert (await rest.edit(sent, content="other")).status == 200
    [stands] = rest.server.said
    assert stands.texts == ["words", "other"]
    assert stands.edited_at is not None


@pytest.mark.parametrize("fields", [{"text": ""}, {"text": " \n"}, {"text": "", "embeds": [{}]}])
async def test_an_empty_message_is_refused(rest: RestClient, fields: dict[str, Any]) -> None:
    reply = await rest.send(**fields)
    assert (reply.status, reply.code) == (400, 50006)


async def test_words_stand_there_without_white_space_around_them(rest: RestClient) -> None:
    assert (await rest.send("  words\n\n")).body["content"] == "words"


async def test_what_is_gone_is_unknown(rest: RestClient) -> None:
    sent = (await rest.send()).body["id"]
    assert (await rest.delete(sent)).status == 204
    for reply in (
        await rest.delete(sent),
        await rest.edit(sent, content="more"),
        await rest.react(sent, "✅"),
        await rest.ask("GET", f"/channels/{rest.channel}/messages/{sent}"),
    ):
        assert (reply.status, reply.code) == (404, 10008)


async def test_what_people_wrote_is_theirs(rest: RestClient) -> None:
    said = rest.server.say("mine")
    edited, deleted = await rest.edit(said, content="yours"), await rest.delete(said)
    assert (edited.status, edited.code) == (403, 50005)
    assert (deleted.status, deleted.code) == (403, 50003)
    assert rest.server.message(said).texts == ["mine"]


async def test_a_message_has_twenty_kinds_of_reactions(rest: RestClient) -> None:
    rest.server.allowance(100, 1.0, of=["react"])
    sent = (await rest.send()).body["id"]
    for number in range(20):
        assert (await rest.react(sent, chr(0x1F600 + number))).status == 204
    assert (await rest.react(sent, chr(0x1F600))).status == 204
    refused = await rest.react(sent, "✅")
    assert (refused.status, refused.code) == (400, 30010)


async def test_an_emoji_is_of_unicode_or_has_a_number(rest: RestClient) -> None:
    rest.server.allowance(100, 1.0, of=["react"])
    sent = (await rest.send()).body["id"]
    assert (await rest.react(sent, "👍🏽")).status == 204
    assert (await rest.react(sent, "party:123456789")).status == 204
    refused = await rest.react(sent, "thumbsup")
    assert (refused.status, refused.code) == (400, 10014)
    assert list(rest.server.message(sent).reactions) == ["👍🏽", "party:123456789"]


async def test_the_bot_takes_back_its_own_reactions_only(rest: RestClient) -> None:
    rest.server.allowance(100, 1.0, of=["react"])
    said = rest.server.say("words")
    rest.server.react(said, "✅")
    message = f"/channels/{rest.channel}/messages/{said}"
    assert (await rest.ask("GET", message)).body["reactions"][0]["me"] is False
    await rest.react(said, "✅")
    assert (await rest.ask("GET", message)).body["reactions"][0]["me"] is True
    people = (await rest.ask("GET", f"{message}/reactions/✅")).body
    assert [each["id"] for each in people] == [rest.server.owner.id, rest.server.bot.id]
    owner = rest.server.owner.id
    for path in (f"{message}/reactions", f"{message}/reactions/✅/{owner}"):
        refused = await rest.ask("DELETE", path)
        assert (refused.status, refused.code) == (403, 50003)
    assert (await rest.ask("DELETE", f"{message}/reactions/✅/@me")).status == 204
    assert (await rest.ask("DELETE", f"{message}/reactions/✅/@me")).code == 10014
    assert rest.server.message(said).reactions == {"✅": [rest.server.owner]}


async def test_a_file_has_its_limit() -> None:
    async with LocalDiscord(largest_file=1000) as server, bot_session(server) as session:
        rest = RestClient(server, session)
        assert (await rest.upload(b"0" * 1000)).status == 200
        refused = await rest.upload(b"0" * 1001)
        assert (refused.status, refused.code) == (413, 40005)
        assert [len(each.files[0].content) for each in server.said] == [1000]


async def test_a_message_has_ten_files(rest: RestClient) -> None:
    assert (await rest.upload(*[b"0"] * 10)).status == 200
    assert (await rest.upload(*[b"0"] * 11)).code == 50035


async def test_an_edit_keeps_the_files_that_it_names(rest: RestClient) -> None:
    sent = (await rest.upload(b"one", b"two")).body
    assert len((await rest.edit(sent["id"], content="more")).body["attachments"]) == 2
    kept = [{"id": sent["attachments"][1]["id"]}]
    await rest.edit(sent["id"], attachments=kept)
    assert [each.content for each in rest.server.said[0].files] == [b"two"]


async def test_a_nonce_is_remembered_for_some_minutes(rest: RestClient) -> None:
    first = (await rest.send("words", nonce="7", enforce_nonce=True)).body
    again = (await rest.send("words", nonce="7", enforce_nonce=True)).body
    assert again["id"] == first["id"]
    assert first["nonce"] == "7"
    unenforced = (await rest.send("words", nonce="7")).body
    assert unenforced["id"] != first["id"]
    rest.server.forget_nonces()
    later = (await rest.send("words", nonce="7", enforce_nonce=True)).body
    assert later["id"] not in (first["id"], unenforced["id"])
    assert len(rest.server.said) == 3


async def test_a_nonce_is_shown_while_it_is_remembered(
    clock: ManualClock, timed_rest: RestClient
) -> None:
    path = f"/channels/{timed_rest.channel}/messages"
    first = (await timed_rest.send("words", nonce="7", enforce_nonce=True)).body
    await clock.advance(180)
    [seen] = (await timed_rest.ask("GET", path)).body
    assert seen["nonce"] == "7"
    timed_rest.server.history_has_nonces = False
    assert "nonce" not in (await timed_rest.ask("GET", path)).body[0]
    timed_rest.server.history_has_nonces = True
    await clock.advance(1)
    assert "nonce" not in (await timed_rest.ask("GET", path)).body[0]
    later = (await timed_rest.send("words", nonce="7", enforce_nonce=True)).body
    assert later["id"] != first["id"]


async def test_history_is_newest_first_and_goes_by_ids(rest: RestClient) -> None:
    ids = [rest.server.say(str(number)) for number in range(7)]
    assert ids == sorted(ids, key=int)
    assert await rest.history(limit="3") == ["6", "5", "4"]
    assert await rest.history(limit="2", before=ids[3]) == ["2", "1"]
    assert await rest.history(limit="2", after=ids[3]) == ["5", "4"]
    assert await rest.history(limit="3", around=ids[3]) == ["4", "3", "2"]
    assert await rest.history() == ["6", "5", "4", "3", "2", "1", "0"]
    path = f"/channels/{rest.channel}/messages"
    assert (await rest.ask("GET", path, params={"limit": "101"})).code == 50035


async def test_json_is_told_as_discord_tells_it(rest: RestClient) -> None:
    """discord.py checks both headers."""
    reply = await rest.ask("GET", "/users/@me")
    assert reply.headers["Content-Type"] == "application/json"
    assert "Via" in reply.headers


async def test_a_wrong_token_is_refused(server: LocalDiscord) -> None:
    async with aiohttp.ClientSession(headers={"Authorization": "Bot wrong"}) as session:
        rest = RestClient(server, session)
        assert (await rest.send()).status == 401
        assert (await rest.ask("GET", "/gateway")).body["url"] == server.gateway_url
    assert server.said == []


async def test_unknown_things_are_not_found(rest: RestClient) -> None:
    asked = {"/users/1": 10013, "/channels/1": 10003, "/nothing": 0}
    for path, code in asked.items():
        reply = await rest.ask("GET", path)
        assert (reply.status, reply.code) == (404, code)


async def test_no_channel_of_a_guild_is_open_to_the_bot(rest: RestClient) -> None:
    said = rest.server.message(rest.server.say("in a guild", in_guild=True))
    reply = await rest.ask("POST", f"/channels/{said.channel.id}/messages", {"content": "x"})
    assert (reply.status, reply.code) == (403, 50001)


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
