"""Requests fail as a test has ordered, and are counted as Discord counts them."""

from __future__ import annotations

import asyncio

import aiohttp
import discord
import pytest
from devtools.doubles.clock import ManualClock
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
from tests.discord_server.client import RecordingClient, connected_client
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


async def test_five_sends_in_five_seconds(clock: ManualClock, timed_rest: RestClient) -> None:
    replies = [await timed_rest.send() for _ in range(6)]
    assert [each.status for each in replies] == [200] * 5 + [429]
    assert [each.headers["X-RateLimit-Remaining"] for each in replies[:5]] == list("43210")
    assert replies[0].headers["X-RateLimit-Limit"] == "5"
    assert replies[0].headers["X-RateLimit-Reset-After"] == "5.000"
    assert replies[5].body["retry_after"] == 5.0
    assert replies[5].body["global"] is False
    assert "Via" in replies[5].headers
    assert timed_rest.server.rate_limited == 1
    assert len(timed_rest.server.said) == 5
    await clock.advance(5)
    assert (await timed_rest.send()).status == 200


async def test_sends_and_edits_have_one_name_and_are_counted_apart(timed_rest: RestClient) -> None:
    sent = [await timed_rest.send() for _ in range(5)]
    edits = [await timed_rest.edit(sent[0].body["id"], content=str(n)) for n in range(6)]
    assert [each.status for each in edits] == [200] * 5 + [429]
    names = {each.headers["X-RateLimit-Bucket"] for each in (*sent, *edits)}
    assert len(names) == 1


async def test_the_allowance_may_change_on_the_way(
    clock: ManualClock, timed_rest: RestClient
) -> None:
    assert (await timed_rest.send()).headers["X-RateLimit-Remaining"] == "4"
    timed_rest.server.allowance(1, 2.0)
    replies = [await timed_rest.send() for _ in range(2)]
    assert [each.status for each in replies] == [200, 429]
    assert replies[1].body["retry_after"] == 2.0
    await clock.advance(2)
    assert (await timed_rest.send()).status == 200


async def test_a_reaction_in_a_quarter_of_a_second(
    clock: ManualClock, timed_rest: RestClient
) -> None:
    sent = (await timed_rest.send()).body["id"]
    replies = [await timed_rest.react(sent, emoji) for emoji in ("✅", "👀")]
    assert [each.status for each in replies] == [204, 429]
    await clock.advance(0.25)
    assert (await timed_rest.react(sent, "👀")).status == 204


async def test_fifty_requests_in_a_second_over_all(
    clock: ManualClock, timed_rest: RestClient
) -> None:
    replies = [await timed_rest.ask("GET", "/users/@me") for _ in range(51)]
    assert [each.status for each in replies] == [200] * 50 + [429]
    assert replies[50].body["global"] is True
    assert replies[50].headers["X-RateLimit-Global"] == "true"
    await clock.advance(1)
    assert (await timed_rest.ask("GET", "/users/@me")).status == 200


async def test_edits_of_old_messages_are_few(clock: ManualClock, timed_rest: RestClient) -> None:
    timed_rest.server.allowance(100, 1.0)
    sent = (await timed_rest.send()).body["id"]
    await clock.advance(3600)
    young = await timed_rest.edit(sent, content="an hour")
    await clock.advance(1)
    old = [await timed_rest.edit(sent, content=str(number)) for number in range(4)]
    assert [each.status for each in (young, *old)] == [200] * 4 + [429]
    assert old[3].code == 30046
    await clock.advance(20)
    assert (await timed_rest.edit(sent, content="later")).status == 200


async def test_deletions_are_counted_by_age(clock: ManualClock, timed_rest: RestClient) -> None:
    timed_rest.server.allowance(100, 1.0)
    sent = [(await timed_rest.send()).body["id"] for _ in range(10)]
    young = [await timed_rest.delete(each) for each in sent[:6]]
    assert [each.status for each in young] == [204] * 5 + [429]
    await clock.advance(10)
    older = [await timed_rest.delete(each) for each in sent[6:]]
    assert [each.status for each in older] == [204] * 3 + [429]


async def test_discord_py_waits_by_the_headers_and_is_never_refused(
    server: LocalDiscord, client: RecordingClient
) -> None:
    server.allowance(2, 0.2)
    dm = await client.dm(server)
    sent = await dm.send("0")
    for number in range(1, 6):
        await sent.edit(content=str(number))
    assert server.said[0].texts == ["0", "1", "2", "3", "4", "5"]
    assert server.rate_limited == 0


async def test_discord_py_comes_back_after_a_refusal(
    clock: ManualClock, timed_server: LocalDiscord, timed_rest: RestClient
) -> None:
    async with connected_client(timed_server) as client:
        dm = await client.dm(timed_server)
        timed_server.allowance(1, 0.05)
        await timed_rest.send("another program")
        sending = asyncio.create_task(dm.send("words"))
        await timed_server.until(lambda: timed_server.rate_limited)
        assert timed_server.texts == ["another program"]
        await clock.advance(0.05)
        await sending
        assert timed_server.texts == ["another program", "words"]
