"""What is ordered to fail fails so, and as often as was said."""

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
from tests.discord_server.client import Listener
from tests.discord_server.wire import Wire

SEND = "POST /channels/*/messages"


async def test_a_status_is_given_as_often_as_was_said(wire: Wire) -> None:
    wire.server.next_fail(SEND, 503, times=2)
    wire.server.next_fail(SEND, ErrorResponse(403, 50007, "Cannot send messages to this user"))
    replies = [await wire.send() for _ in range(4)]
    assert [each.status for each in replies] == [503, 503, 403, 200]
    assert replies[2].code == 50007
    assert len(wire.server.said) == 1


async def test_only_what_matches_fails(wire: Wire) -> None:
    wire.server.next_fail("PATCH *", 500)
    sent = (await wire.send()).body["id"]
    assert (await wire.edit(sent, content="more")).status == 500
    assert (await wire.edit(sent, content="more")).status == 200


async def test_a_fault_without_an_end_is_mended(wire: Wire) -> None:
    wire.server.next_fail("*", 502, times=None)
    assert [(await wire.send()).status for _ in range(3)] == [502] * 3
    wire.server.mend()
    assert (await wire.send()).status == 200


async def test_a_connection_that_drops_has_done_nothing(wire: Wire) -> None:
    wire.server.next_fail(SEND, Dropped())
    with pytest.raises(aiohttp.ClientError):
        await wire.send()
    assert wire.server.said == []
    assert (await wire.send()).status == 200


async def test_an_answer_that_is_lost_has_done_its_work(wire: Wire) -> None:
    wire.server.next_fail(SEND, AnswerLost())
    with pytest.raises(aiohttp.ClientError):
        await wire.send("once", nonce="1", enforce_nonce=True)
    assert wire.server.texts == ["once"]
    assert (await wire.send("once", nonce="1", enforce_nonce=True)).status == 200
    assert wire.server.texts == ["once"]
    assert [each.status for each in wire.server.requests] == [0, 200]


async def test_a_request_may_hang_before_it_is_done(wire: Wire) -> None:
    wire.server.next_fail(SEND, Hanging())
    asking = asyncio.create_task(wire.send("never"))
    await wire.server.until(lambda: not wire.server.faults_left)
    await wire.ask("GET", "/users/@me")
    assert not asking.done()
    asking.cancel()
    await asyncio.wait([asking])
    await wire.server.until(lambda: len(wire.server.requests) == 2)
    assert wire.server.said == []
    assert wire.server.requests[1].status == 0


async def test_a_request_may_hang_after_it_is_done(wire: Wire) -> None:
    wire.server.next_fail(SEND, AnswerHanging())
    asking = asyncio.create_task(wire.send("done"))
    await wire.server.until(lambda: wire.server.texts == ["done"])
    await wire.ask("GET", "/users/@me")
    assert not asking.done()
    asking.cancel()
    await asyncio.wait([asking])


async def test_a_delay_changes_nothing_else(wire: Wire) -> None:
    wire.server.next_fail(SEND, Delayed(0.01))
    assert (await wire.send()).status == 200


async def test_a_refusal_may_say_when_to_come_back(wire: Wire) -> None:
    wire.server.next_fail(SEND, ErrorResponse(429, after=0.5, is_global=True))
    reply = await wire.send()
    assert (reply.body["retry_after"], reply.body["global"]) == (0.5, True)


async def test_a_ban_is_no_answer_of_discord(server: LocalDiscord, client: Listener) -> None:
    dm = await client.dm(server)
    server.next_fail(SEND, Banned())
    with pytest.raises(discord.HTTPException) as raised:
        await dm.send("words")
    assert raised.value.status == 429
    assert server.texts == []


async def test_all_requests_are_noted(wire: Wire) -> None:
    await wire.send("words")
    [note] = wire.server.requests
    assert note.name == f"POST /channels/{wire.channel}/messages"
    assert (note.status, note.body) == (200, {"content": "words"})


async def test_an_outage_refuses_everything_until_it_ends(wire: Wire) -> None:
    port = wire.server.url
    await wire.server.refuse_connections()
    for _ in range(2):
        with pytest.raises(aiohttp.ClientError):
            await wire.send()
    await wire.server.refuse_connections()
    await wire.server.accept_again()
    assert wire.server.url == port
    assert (await wire.send("again")).status == 200
    assert wire.server.texts == ["again"]


async def test_discord_py_sees_a_lost_answer_as_an_error_of_the_wire(
    server: LocalDiscord, client: Listener
) -> None:
    dm = await client.dm(server)
    server.next_fail(SEND, AnswerLost())
    with pytest.raises(aiohttp.ClientError):
        await dm.send("words")
    assert server.texts == ["words"]


async def test_a_file_may_be_gone(server: LocalDiscord, client: Listener) -> None:
    server.say("look", files={"a.txt": b"a"})
    await client.hears(lambda: client.heard)
    server.next_fail("GET /attachments/*", 404)
    with pytest.raises(discord.NotFound):
        await client.heard[0].attachments[0].read()
    assert await client.heard[0].attachments[0].read() == b"a"
