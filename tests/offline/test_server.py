"""The server handles many clients, listens on this machine only, and ends with its context."""

from __future__ import annotations

import asyncio
import io
import socket
import sys
from contextlib import suppress

import aiohttp
import pytest
from tests.offline.wire_client import LIMIT, FixedReplyModel, client_of, joined, question

from ollim_bot.offline.server import (
    Cut,
    Fail,
    Failure,
    Hang,
    MessagesServer,
    ModelRequest,
    Reply,
    Say,
    Stall,
)

HELLO = Reply((Say("Hello, you there"),), chunk=4)


@pytest.mark.parametrize(
    "fail",
    [
        Fail(400, "invalid_request_error", "prompt is too long"),
        Fail(401, "authentication_error", "invalid x-api-key"),
        Fail(403, "permission_error", "no"),
        Fail(404, "not_found_error", "model: claude-x"),
        Fail(429, "rate_limit_error", "slow down"),
        Fail(500, "api_error", "oh"),
        Fail(529, "overloaded_error", "busy"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_failure_has_its_status_and_the_shape_of_an_error(fail: Fail, stream: bool) -> None:
    async with client_of(fail) as client:
        status, body = await client.ask(stream=stream)
    assert status == fail.status
    assert body == {"type": "error", "error": {"type": fail.kind, "message": fail.message}}


async def test_a_failure_may_say_when_to_come_back() -> None:
    async with (
        client_of(Fail(429, "rate_limit_error", "slow down", retry_after=3)) as client,
        client.http.post(f"{client.url}/v1/messages", json=question()) as response,
    ):
        assert response.headers["Retry-After"] == "3"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_cut_drops_the_connection(stream: bool) -> None:
    async with client_of(Cut(HELLO)) as client:
        with pytest.raises((aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)):
            await client.raw(stream=stream)


async def test_before_a_cut_all_that_was_said_arrives() -> None:
    async with client_of(Cut(HELLO)) as client:
        received = await _bytes_of(client.http, client.url, stream=True)
    assert received.count(b"text_delta") == 4
    assert b"content_block_stop" not in received


@pytest.mark.parametrize(
    ("answer", "stream"),
    [
        (Hang(), True),
        (Hang(), False),
        (Stall(HELLO), True),
        (Stall(HELLO), False),
        (Reply((Say("ab"),), pace=3600, chunk=1), True),
    ],
)
async def test_the_server_stops_although_a_request_waits(
    answer: Reply | Failure, stream: bool
) -> None:
    model = FixedReplyModel(answer)
    async with asyncio.timeout(60), aiohttp.ClientSession(timeout=LIMIT) as http:
        async with MessagesServer(model) as server:
            asking = asyncio.create_task(_bytes_of(http, server.url, stream))
            await model.asked.wait()
        assert b"message_stop" not in await asking


async def _bytes_of(http: aiohttp.ClientSession, url: str, stream: bool) -> bytes:
    """The bytes that arrive before the connection breaks."""
    received = b""
    with suppress(aiohttp.ClientError):
        async with http.post(f"{url}/v1/messages", json=question(stream=stream)) as response:
            async for piece in response.content.iter_any():
                received += piece
    return received


async def test_a_client_that_goes_away_does_not_hold_up_the_others() -> None:
    async with asyncio.timeout(60), client_of(Stall(HELLO)) as client:
        for _ in range(3):
            async with client.http.post(
                f"{client.url}/v1/messages", json=question(stream=True)
            ) as response:
                await response.content.readuntil(b"text_delta")


async def test_requests_and_clients_that_go_away_leave_no_trace_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with client_of(Stall(HELLO)) as client:
        async with client.http.post(
            f"{client.url}/v1/messages", json=question(stream=True)
        ) as response:
            await response.content.readuntil(b"text_delta")
        await client.ask("/v1/messages/count_tokens")
    assert caplog.text == ""


async def test_fifty_requests_at_once_get_their_own_answers() -> None:
    class Echo:
        def reply(self, request: ModelRequest) -> Reply:
            return Reply((Say(request.last_user_text),), chunk=1)

    async def ask(http: aiohttp.ClientSession, url: str, text: str) -> str:
        async with http.post(url, json=question(text)) as response:
            message = await response.json()
            return str(message["content"][0]["text"])

    texts = [f"question {number}" for number in range(50)]
    async with MessagesServer(Echo()) as server, aiohttp.ClientSession(timeout=LIMIT) as http:
        url = f"{server.url}/v1/messages"
        assert await asyncio.gather(*(ask(http, url, text) for text in texts)) == texts


@pytest.mark.skipif(sys.platform != "linux", reason="needs a second loopback address")
async def test_only_this_machine_is_served() -> None:
    async with MessagesServer(FixedReplyModel(HELLO)) as server:
        assert server.url.startswith("http://127.0.0.1:")
        port = int(server.url.rpartition(":")[2])
        with socket.socket() as elsewhere:
            # Another loopback address has this port free, so the server is not on all addresses.
            elsewhere.bind(("127.0.0.2", port))


async def test_after_its_context_nobody_answers() -> None:
    async with MessagesServer(FixedReplyModel(HELLO)) as server:
        port = int(server.url.rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b'{"messages": []}',
        b'{"model": "m"}',
        b'{"model": "m", "messages": []}',
        b'{"model": "m", "messages": ["hi"]}',
        b'{"model": "m", "messages": [{"role": "user"}]}',
        b'{"model": "m", "messages": [{"role": [], "content": ""}]}',
        b'{"model": "m", "max_tokens": -1, "messages": [{"role": "user", "content": "hi"}]}',
        b'{"model": "m", "tools": 3, "messages": [{"role": "user", "content": "hi"}]}',
    ],
)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
async def test_a_malformed_request_is_refused_in_shape(body: bytes, path: str) -> None:
    async with client_of(HELLO) as client:
        status, answer = await client.post(body, path)
    assert status == 400
    assert answer["type"] == "error"
    assert answer["error"]["type"] == "invalid_request_error"
    assert answer["error"]["message"]


async def test_a_request_of_any_size_gets_an_answer() -> None:
    body = io.BytesIO(b" " * (32 * 1024 * 1024 + 1))
    async with (
        client_of(HELLO) as client,
        client.http.post(f"{client.url}/v1/messages", data=body) as response,
    ):
        assert response.status == 413
        assert (await response.json())["error"]["type"] == "request_too_large"


async def test_what_is_not_known_is_not_found() -> None:
    async with client_of(HELLO) as client:
        async with client.http.get(f"{client.url}/v1/models") as response:
            assert response.status == 404
            assert (await response.json())["error"]["type"] == "not_found_error"
        async with client.http.head(f"{client.url}/api/hello") as response:
            assert response.status == 404
        async with client.http.head(client.url) as response:
            assert response.status == 200


async def test_a_model_that_raises_is_told_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def reply(self, _: ModelRequest) -> Reply:
            raise LookupError("oh")

    async with (
        MessagesServer(Broken()) as server,
        aiohttp.ClientSession(timeout=LIMIT) as http,
        http.post(f"{server.url}/v1/messages", json=question()) as response,
    ):
        assert response.status == 500
        assert (await response.json())["error"]["type"] == "api_error"
    assert "LookupError: oh" in caplog.text


async def test_a_crowd_that_says_nothing_takes_few_descriptors_and_keeps_nobody_out() -> None:
    idle = []
    try:
        async with client_of(HELLO) as client:
            port = int(client.url.rpartition(":")[2])
            for _ in range(200):
                idle.append(socket.create_connection(("127.0.0.1", port)))
                await asyncio.sleep(0)
            assert joined(await client.stream(), "text") == "Hello, you there"
            for each in idle:
                each.setblocking(False)
            assert sum(map(_is_open, idle)) <= 100
    finally:
        for each in idle:
            each.close()


def _is_open(wire: socket.socket) -> bool:
    try:
        return wire.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
