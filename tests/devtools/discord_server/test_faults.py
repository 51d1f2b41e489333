"""Requests fail as a test has ordered, and are counted as Discord counts them."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from devtools.doubles.clock import ManualClock
from devtools.localdiscord.faults import AnswerHanging, AnswerLost, Dropped, Hanging
from tests.devtools.discord_server.rest_client import RestClient

SEND = "POST /channels/*/messages"


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
