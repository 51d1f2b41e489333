"""Slow, broken, huge and hostile requests: each is refused, and the others are served."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from tests.features.webhooks.calls import github
from tests.features.webhooks.scene import DATA, SECRET, HookScene, new_scene, serving

from ollim_bot.features.webhooks.hook_requests import LARGEST_BODY
from ollim_bot.features.webhooks.webhook_server import WebhookLimits

# Long enough for every request that is not slow on purpose, even on a busy machine.
IMPATIENT = WebhookLimits(stranger_seconds=6, body_seconds=1, idle_seconds=1)
CROWDED = WebhookLimits(connections=20, strangers=8)
BODY = json.dumps(DATA).encode()
PROOF = f"Authorization: Bearer {SECRET}"
LENGTH = f"Content-Length: {len(BODY)}"
SIGNED = f"X-Hub-Signature-256: {github(SECRET, BODY)['X-Hub-Signature-256']}"
LONG = [f"X-{number}: " + "x" * 7500 for number in range(3)]
START = "POST /hook/rain HTTP/1.1\r\nHost: bot\r\n"


def head(*lines: str) -> bytes:
    return (START + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode("latin-1")


@asynccontextmanager
async def connected(
    scene: HookScene,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.port)
    try:
        async with asyncio.timeout(60):
            yield reader, writer
    finally:
        writer.close()


async def status_of(reader: asyncio.StreamReader) -> int | None:
    """The status of the next answer; None if the connection was closed without one."""
    try:
        line = await reader.readline()
    except ConnectionError:
        return None
    return int(line.split()[1]) if line else None


async def sent(scene: HookScene, parts: Sequence[bytes]) -> int | None:
    async with connected(scene) as (reader, writer):
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
        except ConnectionError:
            pass
        return await status_of(reader)


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


CHUNKED = "Transfer-Encoding: chunked"


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ([head(PROOF, f"Content-Length: {len(BODY)}"), BODY], 202),
        ([head(PROOF, CHUNKED), chunk(BODY[:5]), chunk(BODY[5:]), chunk(b"")], 202),
        ([head(PROOF, CHUNKED), *([chunk(b" " * 65536)] * 17), chunk(b"")], 413),
        ([head(PROOF, f"Content-Length: {10**12}"), b" " * 100], 413),
        ([head(f"Content-Length: {10**12}"), b" " * 100], 401),
        ([head("Authorization: Bearer x", CHUNKED), chunk(b" " * 65536)], 401),
        ([head("X-Hub-Signature-256: sha256=00", f"Content-Length: {10**12}")], 413),
        ([head(PROOF, "Content-Length: -1"), BODY], 400),
        ([head(PROOF, "Content-Length: 5", "Content-Length: 6"), BODY], 400),
        ([head(PROOF, CHUNKED), b"zz\r\n"], 400),
        ([head(PROOF, "X-Long: " + "x" * 9000)], 400),
        ([head(PROOF, LENGTH, *LONG[:2]), BODY], 202),
        ([head(PROOF, LENGTH, *LONG), BODY], 401),
        ([head(PROOF, LENGTH, PROOF), BODY], 401),
        ([head(SIGNED, LENGTH), BODY], 202),
        ([head(SIGNED, SIGNED, LENGTH), BODY], 401),
        ([head("Stripe-Signature: t=1", SIGNED, LENGTH), BODY], 401),
        ([head(f"webhook-signature: {'a ' * 4000}", f"Content-Length: {10**12}")], 401),
        ([(head(PROOF, LENGTH) + BODY).replace(b"/", b"http://xn--a/", 1)], 202),
        ([(head(PROOF, LENGTH) + BODY).replace(b"/", b"http://%b/" % (b"a." * 4000), 1)], 202),
        ([head(PROOF, *(f"X-{number}: x" for number in range(500)))], 400),
        ([b"POST /hook/" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n"], 400),
        ([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\r\n\r\n"], 400),
        ([b"GET / HTTP/1.1\r\nHost: bot\r\n\r\n"], 404),
        ([b"POST /hook/ HTTP/1.1\r\nHost: bot\r\n\r\n"], 404),
        ([b"POST /hook/rain/x HTTP/1.1\r\nHost: bot\r\n\r\n"], 404),
        ([b"POST /hook/../hook/rain HTTP/1.1\r\nHost: bot\r\n\r\n"], 404),
    ],
    ids=lambda value: None if isinstance(value, list) else str(value),
)
async def test_broken_and_huge_requests_are_refused(
    scene: HookScene, parts: Sequence[bytes], status: int
) -> None:
    assert await sent(scene, parts) == status
    assert (await scene.call()).status == 202


@pytest.mark.parametrize(
    "request_text",
    [
        head(PROOF, LENGTH) + BODY,
        head(LENGTH) + BODY,
        b"GET / HTTP/1.1\r\nHost: b\r\n\r\n",
        b"no\r\n\r\n",
    ],
    ids=["accepted", "refused", "elsewhere", "malformed"],
)
async def test_no_answer_names_the_versions_of_the_server(
    scene: HookScene, request_text: bytes
) -> None:
    async with connected(scene) as (reader, writer):
        writer.write(request_text)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert b"server:" not in answer
        assert b"python" not in answer
        assert b"aiohttp" not in answer


async def test_what_a_stranger_sends_is_parsed_a_little_at_a_time(scene: HookScene) -> None:
    """Each chunk of one byte costs as much as a large one. Between two kilobytes, others run."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(count_turns())
    try:
        chunks = chunk(b" ") * 40_000 + chunk(b"")
        assert await sent(scene, [head(SIGNED, CHUNKED), chunks]) == 401
    finally:
        others.cancel()
    assert turns > 200


async def test_a_packed_body_is_read_as_it_was_sent(scene: HookScene) -> None:
    """The compressed body is signed, and a decompression bomb is never unpacked."""
    bomb = gzip.compress(b" " * (50 * LARGEST_BODY))
    headers = {**github(SECRET, bomb), "Content-Encoding": "gzip"}
    answer = await scene.call(data=bomb, headers=headers)
    assert (answer.status, answer.body) == (400, {"error": "invalid json"})


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ([b"POST /hook"], None),
        ([b"POST /hook/rain HTTP/1.1\r\nHost: b"], None),
        ([head("X-Hub-Signature-256: sha256=00", "Content-Length: 9"), b"{"], 408),
        ([head(PROOF, "Content-Length: 9"), b"{"], 408),
        ([head(PROOF, CHUNKED), b"5\r\n{"], 408),
    ],
    ids=lambda value: None if isinstance(value, list) else str(value),
)
async def test_a_slow_request_is_given_up(parts: Sequence[bytes], status: int | None) -> None:
    async with serving(new_scene(), IMPATIENT) as scene:
        assert await sent(scene, parts) == status
        assert scene.accepted == []


@pytest.mark.parametrize("proof", [PROOF, "X-Hub-Signature-256: sha256=00"], ids=["owner", "any"])
@pytest.mark.parametrize("length", [LENGTH, CHUNKED])
async def test_a_request_that_breaks_off_is_not_accepted_and_leaves_no_traceback(
    scene: HookScene, caplog: pytest.LogCaptureFixture, proof: str, length: str
) -> None:
    body = BODY[:-1] if length == LENGTH else b"9\r\n{"
    async with connected(scene) as (_, writer):
        writer.write(head(proof, length) + body)
        await writer.drain()
    assert (await scene.call()).status == 202
    assert len(scene.accepted) == 1
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "said", [b"", START.encode(), head(SIGNED, LENGTH)], ids=["silent", "head", "body"]
)
async def test_many_unfinished_requests_leave_room_for_a_call(said: bytes) -> None:
    async with serving(new_scene(), CROWDED) as scene:
        crowd = [await asyncio.open_connection("127.0.0.1", scene.port) for _ in range(60)]
        try:
            for _, writer in crowd:
                writer.write(said)
            assert (await scene.call()).status == 202
        finally:
            for _, writer in crowd:
                writer.close()


@pytest.mark.parametrize("size", [1, 30_000], ids=["short", "long"])
@pytest.mark.parametrize(
    "said", [b"", START.encode(), head(SIGNED, LENGTH)], ids=["silent", "head", "body"]
)
async def test_a_signed_call_is_answered_though_a_hundred_strangers_come_with_it(
    said: bytes, size: int
) -> None:
    """A busy machine hands the server all that came meanwhile at once, the call first."""
    body = json.dumps({"title": "Öl"}).encode() + b" " * size
    signed = f"X-Hub-Signature-256: {github(SECRET, body)['X-Hub-Signature-256']}"
    async with serving(new_scene()) as scene, connected(scene) as (reader, writer):
        crowd = [await asyncio.open_connection("127.0.0.1", scene.port) for _ in range(100)]
        try:
            writer.write(head(signed, f"Content-Length: {len(body)}") + body)
            for _, each in crowd:
                each.write(said)
            assert await status_of(reader) == 202
        finally:
            for _, each in crowd:
                each.close()


async def test_one_connection_serves_many_calls(scene: HookScene) -> None:
    async with connected(scene) as (reader, writer):
        for number in range(3):
            body = json.dumps({"title": str(number)}).encode()
            writer.write(head(PROOF, f"Content-Length: {len(body)}") + body)
            await writer.drain()
            assert await status_of(reader) == 202
            rest = await reader.readuntil(b"}")
            assert b"webhook:rain:" in rest
    assert [fields["title"] for _, fields in scene.accepted] == ["0", "1", "2"]


async def test_the_log_has_no_secret_and_no_word_of_a_request(
    scene: HookScene, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await scene.call()
    await scene.call("guess", {"title": "order"}, {"Authorization": "Bearer guess"})
    await sent(scene, [head(PROOF, "Content-Length: x", "X-Order: order")])
    await sent(scene, [b"order me around\r\n\r\n"])
    for word in (SECRET, "guess", "order", "It rains"):
        assert word not in caplog.text
    assert "A webhook call was accepted" in caplog.text


@pytest.mark.parametrize("rest", [b"zz\r\n", b"5\r\n{}"])
async def test_a_body_that_breaks_while_it_is_read_is_refused(
    scene: HookScene, caplog: pytest.LogCaptureFixture, rest: bytes
) -> None:
    async with connected(scene) as (reader, writer):
        writer.write(head(PROOF, CHUNKED, "Expect: 100-continue"))
        assert await status_of(reader) == 100
        await reader.readline()
        writer.write(rest)
        writer.write_eof()
        found = await status_of(reader)
        assert found in (400, None)
    assert scene.accepted == []
    assert (await scene.call()).status == 202
    assert "could not be answered" not in caplog.text
