"""Messages, forwards, reactions, files and history are as Discord has them."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from devtools.localdiscord.server import LocalDiscord
from tests.devtools.discord_server.rest_client import RestClient, bot_session


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
