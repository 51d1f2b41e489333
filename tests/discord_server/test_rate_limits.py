"""Requests are counted as Discord counts them, and it says so in headers."""

from __future__ import annotations

import asyncio

from devtools.doubles.clock import ManualClock
from devtools.localdiscord.server import LocalDiscord
from tests.discord_server.client import RecordingClient, connected_client
from tests.discord_server.rest_client import RestClient


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
