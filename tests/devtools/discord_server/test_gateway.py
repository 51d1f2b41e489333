"""The gateway keeps sessions through drops, and loses them as the real one does."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
from devtools.localdiscord.server import LocalDiscord

DMS = 1 << 12 | 1 << 13


class GatewaySocket:
    """A plain client of the gateway."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def say(self, op: int, data: Any = None) -> None:
        await self.socket.send_str(json.dumps({"op": op, "d": data}))

    async def hear(self) -> Any:
        return await self.socket.receive_json(timeout=10)

    async def closing(self) -> int | None:
        """Wait until it is closed; gives the close code."""
        while not self.socket.closed:
            await self.socket.receive(timeout=10)
        return self.socket.close_code

    async def identify(self, token: str, intents: int = DMS) -> Any:
        await self.say(2, {"token": token, "intents": intents, "properties": {}})


async def opened(server: LocalDiscord, http: aiohttp.ClientSession) -> GatewaySocket:
    socket = GatewaySocket(await http.ws_connect(server.gateway_url))
    hello = await socket.hear()
    assert hello["op"] == 10
    assert hello["d"]["heartbeat_interval"] == 41250
    return socket


async def ready(
    server: LocalDiscord, http: aiohttp.ClientSession, intents: int = DMS
) -> GatewaySocket:
    socket = await opened(server, http)
    await socket.identify(server.token, intents)
    assert (await socket.hear())["t"] == "READY"
    return socket


async def test_what_breaks_the_protocol_is_closed_with_its_code(
    server: LocalDiscord, http: aiohttp.ClientSession
) -> None:
    early = await opened(server, http)
    await early.say(3, {})
    assert await early.closing() == 4003
    twice = await ready(server, http)
    await twice.identify(server.token)
    assert await twice.closing() == 4005
    unknown = await ready(server, http)
    await unknown.say(99)
    assert await unknown.closing() == 4001
    large = await ready(server, http)
    await large.say(3, {"status": "x" * 4096})
    assert await large.closing() == 4002
    fast = await ready(server, http)
    for _ in range(120):
        await fast.say(3, {})
    assert await fast.closing() == 4008


async def test_only_what_was_asked_for_is_told(
    server: LocalDiscord, http: aiohttp.ClientSession
) -> None:
    messages, reactions = await ready(server, http, 1 << 12), await ready(server, http, 1 << 13)
    said = server.say("words")
    server.react(said, "✅")
    server.say("in a guild", in_guild=True)
    server.say("more")
    assert [(await messages.hear())["d"]["content"] for _ in range(2)] == ["words", "more"]
    assert (await reactions.hear())["t"] == "MESSAGE_REACTION_ADD"


async def test_words_in_a_guild_are_hidden_without_their_intent(
    http: aiohttp.ClientSession,
) -> None:
    async with LocalDiscord(granted_intents=1 << 9 | 1 << 15) as server:
        blind, seeing = (
            await ready(server, http, 1 << 9),
            await ready(server, http, 1 << 9 | 1 << 15),
        )
        server.say("words", in_guild=True)
        assert (await blind.hear())["d"]["content"] == ""
        assert (await seeing.hear())["d"]["content"] == "words"


async def test_a_session_that_is_gone_tells_nothing_of_before(
    server: LocalDiscord, http: aiohttp.ClientSession
) -> None:
    socket = await ready(server, http)
    session = next(iter(server.gateway.sessions))
    await socket.socket.close(code=4000)
    await server.until(lambda: not server.gateway.listeners)
    server.say("missed")
    server.refuse_resume()
    again = await opened(server, http)
    await again.say(6, {"token": server.token, "session_id": session, "seq": 1})
    refused = await again.hear()
    assert (refused["op"], refused["d"]) == (9, False)
    await again.identify(server.token)
    assert (await again.hear())["t"] == "READY"
    server.say("heard")
    assert (await again.hear())["d"]["content"] == "heard"
