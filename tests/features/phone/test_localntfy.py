"""The local ntfy and its phone behave as ntfy's documentation says."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from devtools.doubles.clock import ManualClock
from devtools.localntfy.phone import Phone
from devtools.localntfy.server import LocalNtfy
from devtools.localntfy.terminal import Terminal

Answer = tuple[int, dict[str, Any]]
START = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
CARD = {"topic": "out", "title": "Water", "message": "Drink?", "sequence_id": "nonce1"}


class Bot:
    """Publishes and reads as a client does."""

    def __init__(self, ntfy: LocalNtfy, session: aiohttp.ClientSession) -> None:
        self.ntfy = ntfy
        self._session = session

    async def call(self, method: str, path: str, **given: Any) -> Answer:
        async with self._session.request(method, self.ntfy.url + path, **given) as answer:
            return answer.status, json.loads(await answer.read())

    async def publish(self, **fields: Any) -> dict[str, Any]:
        status, answer = await self.call("POST", "/", json=fields)
        assert status == 200, answer
        return answer

    async def poll(self, path: str) -> list[dict[str, Any]]:
        async with self._session.get(self.ntfy.url + path) as answer:
            return [json.loads(line) for line in (await answer.text()).splitlines()]

    async def texts(self, path: str = "/out/json?poll=1") -> list[str]:
        return [each.get("message", each["event"]) for each in await self.poll(path)]

    async def refusal(self, method: str, path: str, **given: Any) -> tuple[int, int]:
        status, answer = await self.call(method, path, **given)
        assert answer["http"] == status
        return status, answer["code"]


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def bot(session: aiohttp.ClientSession) -> AsyncIterator[Bot]:
    async with LocalNtfy() as ntfy:
        yield Bot(ntfy, session)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
async def timed(session: aiohttp.ClientSession, clock: ManualClock) -> AsyncIterator[Bot]:
    """A bot at a server whose time passes only by `clock`."""
    async with LocalNtfy(now=clock.now) as ntfy:
        yield Bot(ntfy, session)


def done(ntfy: LocalNtfy, **more: Any) -> dict[str, Any]:
    """A button that posts to the reply topic."""
    url = f"{ntfy.url}/reply"
    return {"action": "http", "label": "Done", "url": url, "body": "n1", "clear": True, **more}


async def test_what_is_published_comes_back_with_its_buttons(timed: Bot) -> None:
    actions = [
        {"action": "view", "label": "Open", "url": "https://a.example/"},
        done(timed.ntfy, body="a, b; c", headers={"Authorization": "Bearer tk_x"}),
    ]
    sent = await timed.publish(**CARD, tags=["a", "b"], priority=4, actions=actions)
    assert (sent["event"], sent["message"], sent["priority"]) == ("message", "Drink?", 4)
    assert sent["expires"] - sent["time"] == 12 * 3600
    assert len(sent["id"]) == 12
    assert all(action.pop("id") for action in sent["actions"])
    assert sent["actions"] == [{**actions[0], "clear": False}, actions[1]]
    _, plain = await timed.call("POST", "/out")
    assert plain["message"] == "triggered"


async def test_the_cache_is_read_by_id_time_and_topic_and_forgets(
    timed: Bot, clock: ManualClock
) -> None:
    first = await timed.publish(topic="out", message="one")
    await clock.advance(600)
    await timed.publish(topic="reply", message="other")
    second = await timed.publish(topic="out", message="two")

    assert await timed.texts() == ["one", "two"]
    assert await timed.texts(f"/out/json?poll=1&since={first['id']}") == ["two"]
    assert await timed.texts(f"/out/json?poll=1&since={second['time']}") == ["two"]
    assert await timed.texts("/out/json?poll=1&since=latest") == ["two"]
    assert await timed.refusal("GET", "/out/json?poll=1&since=?") == (400, 40008)
    await clock.advance(12 * 3600 - 300)
    assert await timed.texts() == ["two"]
    await timed.ntfy.restart()
    assert await timed.texts() == []


async def test_a_stream_opens_lives_catches_up_and_breaks(bot: Bot) -> None:
    before = await bot.publish(topic="out", message="before")
    await bot.publish(topic="out", message="missed")
    timeout = aiohttp.ClientTimeout(total=None)
    address = f"{bot.ntfy.url}/out,reply/json?since={before['id']}"
    async with aiohttp.ClientSession() as own, own.get(address, timeout=timeout) as stream:
        lines = [json.loads(await stream.content.readline()) for _ in range(2)]
        lines.append(json.loads(await stream.content.readline()))
        bot.ntfy.line_delay = 30.0
        began = asyncio.get_running_loop().time()
        await bot.publish(topic="reply", message="slow")
        lines.append(json.loads(await stream.content.readline()))
        assert asyncio.get_running_loop().time() - began >= 30.0
        bot.ntfy.drop_streams()
        assert await stream.content.readline() == b""

    assert [each["event"] for each in lines] == ["open", "message", "keepalive", "message"]
    assert lines[0]["topic"] == "out,reply"
    assert [each.get("message") for each in lines] == [None, "missed", None, "slow"]


async def test_an_android_replaces_and_clears_and_an_iphone_does_not(bot: Bot) -> None:
    async with (
        Phone(bot.ntfy.url, "out") as android,
        Phone(bot.ntfy.url, "out", is_iphone=True, name="iphone") as iphone,
    ):
        await bot.publish(**CARD)
        await bot.publish(**{**CARD, "message": "Drink now?"})
        await android.shows("Drink now?")
        await iphone.shows("Drink?", "Drink now?")
        _, cleared = await bot.call("PUT", "/out/nonce1/clear")
        await android.shows()
        await bot.publish(**CARD)
        await android.shows("Drink?")
        _, deleted = await bot.call("DELETE", "/out/nonce1")
        await android.shows()
        assert iphone.texts == ["Drink?", "Drink now?", "Drink?"]

    assert (cleared["event"], deleted["event"]) == ("message_clear", "message_delete")
    assert cleared["sequence_id"] == "nonce1"
    assert await bot.texts("/out/json?poll=1&since=latest") == ["message_delete"]


async def test_a_token_may_do_only_what_it_is_for(bot: Bot) -> None:
    access = bot.ntfy.access
    access.close_to_strangers()
    owner, reply = access.new_token(), access.new_limited_token({"reply": "write"})
    whole, writing = ({"Authorization": f"Bearer {each}"} for each in (owner, reply))
    query = base64.urlsafe_b64encode(f"Bearer {owner}".encode()).decode().rstrip("=")

    assert await bot.refusal("POST", "/", json=CARD) == (403, 40301)
    wrong = {"Authorization": "Bearer tk_wrong"}
    assert await bot.refusal("POST", "/", json=CARD, headers=wrong) == (401, 40101)
    assert (await bot.call("POST", "/", json=CARD, headers=whole))[0] == 200
    assert await bot.texts(f"/out/json?poll=1&auth={query}") == ["Drink?"]
    assert await bot.refusal("GET", "/reply/json?poll=1", headers=writing) == (403, 40301)
    assert await bot.refusal("POST", "/out", data="x", headers=writing) == (403, 40301)
    button = done(bot.ntfy, headers=writing)
    await bot.call("POST", "/", json={**CARD, "actions": [button]}, headers=whole)
    async with Phone(bot.ntfy.url, "out", token=owner) as phone:
        await phone.until(lambda: phone.shown and phone.shown[0].actions)
        assert await phone.press(phone.shown[0], "Done") == 200
        assert phone.shown == []
    assert [each.text for each in bot.ntfy.published("reply")] == ["n1"]


async def test_limits_are_those_of_the_public_server(timed: Bot, clock: ManualClock) -> None:
    for _ in range(60):
        await timed.publish(topic="out", message="x")
    assert await timed.refusal("POST", "/", json=CARD) == (429, 42901)
    await clock.advance(5)
    await timed.publish(topic="out", message="x")
    timed.ntfy.limits.burst = 1000
    await clock.advance(2 * 3600)
    for _ in range(250 - 61):
        await timed.publish(topic="out", message="x")
    assert await timed.refusal("PUT", "/out/nonce1/clear") == (429, 42908)
    timed.ntfy.limits.tells_when = True
    async with aiohttp.request("POST", timed.ntfy.url, json=CARD) as answer:
        assert 0 <= int(answer.headers["Retry-After"]) - (10 * 3600 - 5) <= 1
    await clock.advance(10 * 3600)
    await timed.publish(topic="out", message="x")

    long = await timed.publish(topic="out", message="x" * 4098)
    assert long["attachment"]["size"] == 4098
    assert await timed.refusal("POST", "/", data=b"x" * 8193) == (413, 41303)
    assert await timed.refusal("POST", "/a.b", data="x") == (400, 40009)
    many = [done(timed.ntfy)] * 4
    assert await timed.refusal("POST", "/", json={**CARD, "actions": many}) == (400, 40018)


async def test_the_phone_in_the_terminal_shows_buttons_and_presses_them(bot: Bot) -> None:
    lines: list[str] = []
    async with Phone(bot.ntfy.url, "out") as phone:

        def write(line: str) -> None:
            lines.append(line)
            phone.changes.tell()

        async def reads(*wanted: str) -> None:
            await phone.until(lambda: lines == list(wanted))
            lines.clear()

        terminal = Terminal(phone, write)
        watching = asyncio.create_task(terminal.watch())
        await bot.publish(**CARD, actions=[done(bot.ntfy)])
        await reads("#1 Water", "   Drink?", "   [1] Done")
        await terminal.run_line("2")
        await reads("! There is no button [2]. Type help for what can be done.")
        await bot.publish(**{**CARD, "message": "Drink now?"}, actions=[done(bot.ntfy)])
        await reads("#1 (changed) Water", "   Drink now?", "   [2] Done")
        await terminal.run_line("2")
        await reads("* Done: answered 200", "#1 is gone")
        watching.cancel()
    assert [each.text for each in bot.ntfy.published("reply")] == ["n1"]
