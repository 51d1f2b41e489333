"""Requests fail as a test has ordered, and as often."""

from __future__ import annotations

import asyncio

import aiohttp
import discord
import pytest
from devtools.localdiscord.faults import (
    AnswerHanging,
    AnswerLost,
    Banned,
    Delayed,
    Dropped,
    ErrorResponse,
    Hanging,
)
from devtools.localdiscord.server import LocalDiscord
from tests.discord_server.client import RecordingClient
from tests.discord_server.rest_client import RestClient

SEND = "POST /channels/*/messages"


async def test_a_status_is_given_as_often_as_was_said(rest: RestClient) -> None:
    rest.server.next_fail(SEND, 503, times=2)
    rest.server.next_fail(SEND, ErrorResponse(403, 50007, "Cannot send messages to this user"))
    replies = [await rest.send() for _ in range(4)]
    assert [each.status for each in replies] == [503, 503, 403, 200]
    assert replies[2].code == 50007
    assert len(rest.server.said) == 1


async def test_only_what_matches_fails(rest: RestClient) -> None:
    rest.server.next_fail("PATCH *", 500)
    sent = (await rest.send()).body["id"]
    assert (await rest.edit(sent, content="more")).status == 500
    assert (await rest.edit(sent, content="more")).status == 200


async def test_a_fault_without_an_end_is_mended(rest: RestClient) -> None:
    rest.server.next_fail("*", 502, times=None)
    assert [(await rest.send()).status for _ in range(3)] == [502] * 3
    rest.server.mend()
    assert (await rest.send()).status == 200


async def test_a_connection_that_drops_has_done_nothing(rest: RestClient) -> None:
    rest.server.next_fail(SEND, Dropped())
    with pytest.raises(aiohttp.ClientError):
        await rest.send()
    assert rest.server.said == []
    assert (await rest.send()).status == 200


async def test_an_answer_that_is_lost_has_done_its_work(rest: RestClient) -> None:
    rest.server.next_fail(SEND, AnswerLost())
    with pytest.raises(aiohttp.ClientError):
        await rest.send("once", nonce="1", enforce_nonce=True)
    assert rest.server.texts == ["once"]
    assert (await rest.send("once", nonce="1", enforce_nonce=True)).status == 200
    assert rest.server.texts == ["once"]
    assert [each.status for each in rest.server.requests] == [0, 200]


async def test_a_request_may_hang_before_it_is_done(rest: RestClient) -> None:
    rest.server.next_fail(SEND, Hanging())
    asking = asyncio.create_task(rest.send("never"))
    await rest.server.until(lambda: not rest.server.faults_left)
    await rest.ask("GET", "/users/@me")
    assert not asking.done()
    asking.cancel()
    await asyncio.wait([asking])
    await rest.server.until(lambda: len(rest.server.requests) == 2)
    assert rest.server.said == []
    assert rest.server.requests[1].status == 0


async def test_a_request_may_hang_after_it_is_done(rest: RestClient) -> None:
    rest.server.next_fail(SEND, AnswerHanging())
    asking = asyncio.create_task(rest.send("done"))
    await rest.server.until(lambda: rest.server.texts == ["done"])
    await rest.ask("GET", "/users/@me")
    assert not asking.done()
    asking.cancel()
    await asyncio.wait([asking])


async def test_a_delay_changes_nothing_else(rest: RestClient) -> None:
    rest.server.next_fail(SEND, Delayed(0.01))
    assert (await rest.send()).status == 200


async def test_a_refusal_may_say_when_to_come_back(rest: RestClient) -> None:
    rest.server.next_fail(SEND, ErrorResponse(429, after=0.5, is_global=True))
    reply = await rest.send()
    assert (reply.body["retry_after"], reply.body["global"]) == (0.5, True)


async def test_a_ban_is_no_answer_of_discord(server: LocalDiscord, client: RecordingClient) -> None:
    dm = await client.dm(server)
    server.next_fail(SEND, Banned())
    with pytest.raises(discord.HTTPException) as raised:
        await dm.send("words")
    assert raised.value.status == 429
    assert server.texts == []


async def test_all_requests_are_noted(rest: RestClient) -> None:
    await rest.send("words")
    [note] = rest.server.requests
    assert note.name == f"POST /channels/{rest.channel}/messages"
    assert (note.status, note.body) == (200, {"content": "words"})


async def test_an_outage_refuses_everything_until_it_ends(rest: RestClient) -> None:
    port = rest.server.url
    await rest.server.refuse_connections()
    for _ in range(2):
        with pytest.raises(aiohttp.ClientError):
            await rest.send()
    await rest.server.refuse_connections()
    await rest.server.accept_again()
    assert rest.server.url == port
    assert (await rest.send("again")).status == 200
    assert rest.server.texts == ["again"]


async def test_discord_py_sees_a_lost_answer_as_an_error_of_the_wire(
    server: LocalDiscord, client: RecordingClient
) -> None:
    dm = await client.dm(server)
    server.next_fail(SEND, AnswerLost())
    with pytest.raises(aiohttp.ClientError):
        await dm.send("words")
    assert server.texts == ["words"]


async def test_a_file_may_be_gone(server: LocalDiscord, client: RecordingClient) -> None:
    server.say("look", files={"a.txt": b"a"})
    await client.until(lambda: client.heard)
    server.next_fail("GET /attachments/*", 404)
    with pytest.raises(discord.NotFound):
        await client.heard[0].attachments[0].read()
    assert await client.heard[0].attachments[0].read() == b"a"
