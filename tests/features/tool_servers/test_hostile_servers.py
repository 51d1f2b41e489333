"""Nothing that a tool server sends holds up the bot; what sends too much is given up."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.features.tool_servers.hostile_server import answer, listing
from tests.patience import patience

from ollim_bot.features.tool_servers.server_connection import (
    LONGEST_MESSAGE,
    ServerConnection,
    ServerTimeouts,
    open_connection,
)
from ollim_bot.kernel.base.errors import ToolServerFailed
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.values.server_messages import reduce_message
from ollim_bot.kernel.values.tool_servers import ServerSpec

SERVER = Path(__file__).with_name("hostile_server.py")


class LoopWatch:
    """`worst` is the most processor time between two turns of the loop, in seconds.

    What else the machine does meanwhile is no part of it.
    """

    worst = 0.0

    async def run(self) -> None:
        while True:
            begun = time.thread_time()
            await asyncio.sleep(0.005)
            self.worst = max(self.worst, time.thread_time() - begun)


@asynccontextmanager
async def watched() -> AsyncIterator[LoopWatch]:
    watch = LoopWatch()
    task = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        task.cancel()


@asynccontextmanager
async def opened(folder: Path, spec: ServerSpec) -> AsyncIterator[ServerConnection]:
    long = ServerTimeouts(start=patience(), call=patience())
    async with watched() as watch:
        async with open_connection(spec, DataPaths(folder), os.environ, long) as server:
            yield server
        assert watch.worst < 1.0


def program(manner: str) -> ServerSpec:
    return ServerSpec("odd", (sys.executable, "-S", str(SERVER), manner))


@pytest.mark.real_process
@pytest.mark.parametrize(
    ("manner", "left_out"),
    [
        ("schema", {"big": "a schema of more than 20000 characters"}),
        ("deep", {"deep": "a schema of more than 50 levels"}),
        ("tools", {"t99": "more tools before it than one server may have"}),
        ("costly", {"t19": "more tools before it than one server may have"}),
        ("result", {}),
    ],
)
async def test_what_is_too_large_is_left_out_and_the_rest_works(
    tmp_path: Path, manner: str, left_out: dict[str, str]
) -> None:
    async with opened(tmp_path, program(manner)) as server:
        assert server.tools[0].name == "find"
        assert left_out.items() <= server.left_out.items()
        assert len(server.tools) <= 100
        assert sum(len(each.schema) for each in server.tools) <= 210_000
        assert (await server.call("find", {})).text == "Found."
        if manner == "tools":
            await server.list_tools()
            assert server.tools[0].name == "find"


@pytest.mark.real_process
@pytest.mark.parametrize(
    ("manner", "reason"),
    [
        ("words", "prints lines that are no messages."),
        ("changed", "sends more messages than it was asked for."),
        ("log", "sends more messages than it was asked for."),
        ("endless", "sends a line without an end."),
    ],
)
async def test_a_server_that_floods_is_given_up(tmp_path: Path, manner: str, reason: str) -> None:
    async def hold() -> None:
        async with opened(tmp_path, program(manner)) as server:
            while await server.until_changed():
                pass

    with pytest.raises(ToolServerFailed) as failed:
        async with asyncio.timeout(patience()):
            await hold()
    assert str(failed.value) == reason


@pytest.mark.real_process
async def test_errors_without_end_hold_up_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, program("stderr")) as server:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await server.until_changed()


class HostileHttp:
    """Answers every request with the same head and body, the last block again and again."""

    def __init__(self, kind: str, *blocks: bytes, head: str = "") -> None:
        self._head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{head}Connection: close\r\n\r\n"
        self._blocks = blocks

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ServerSpec]:
        async with await asyncio.start_server(self._answer, "127.0.0.1") as server:
            port = server.sockets[0].getsockname()[1]
            yield ServerSpec("web", url=f"http://127.0.0.1:{port}/mcp")
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self._head.encode())
            for block in self._blocks:
                writer.write(block)
                await writer.drain()
            while True:
                writer.write(self._blocks[-1])
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


EVENTS = "text/event-stream"
LOG = b'data: {"jsonrpc": "2.0", "method": "notifications/message"}\n\n'


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (HostileHttp("application/json", b"[" * 65536), "sent a message of more than 8 MB."),
        (HostileHttp(EVENTS, b"x" * 65536), "sent a message of more than 8 MB."),
        (HostileHttp(EVENTS, b"\n" * 65536), "prints lines that are no messages."),
        (HostileHttp(EVENTS, b": ping\r\n\r\n" * 900), "prints lines that are no messages."),
        (HostileHttp(EVENTS, b"data: x\n" * 8000), "sent a message of more than 8 MB."),
        (HostileHttp(EVENTS, b"data: x\n" * 8000 + b"\n"), "sends events of too many lines."),
        (HostileHttp(EVENTS, LOG * 900), "sends more messages than it was asked for."),
        (
            HostileHttp("application/json", b"x" * 65536, head="Content-Encoding: gzip\r\n"),
            "packs its answers, which nobody asked for.",
        ),
    ],
)
async def test_an_address_that_floods_is_given_up(
    tmp_path: Path, server: HostileHttp, reason: str
) -> None:
    async def hold(spec: ServerSpec) -> None:
        async with opened(tmp_path, spec) as held:
            await held.until_changed()

    async with server.serving() as spec, asyncio.timeout(patience()):
        with pytest.raises(ToolServerFailed) as failed:
            await hold(spec)
    assert str(failed.value) == reason


class HugeAnswers:
    """Behaves until its tool is called, and then answers with 300 MB; `sent` counts them."""

    def __init__(self, kind: str, begin: bytes, status: str, is_measured: bool) -> None:
        self.sent = 0
        self._kind = kind
        self._begin = begin
        self._status = status
        self._is_measured = is_measured

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ServerSpec]:
        async with await asyncio.start_server(self._serve, "127.0.0.1") as server:
            port = server.sockets[0].getsockname()[1]
            yield ServerSpec("web", url=f"http://127.0.0.1:{port}/mcp")
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(re.search(r"content-length: (\d+)", head + "content-length: 0")[1])  # type: ignore[index]
            asked = json.loads(await reader.readexactly(length) or b"{}")
            if asked.get("method") == "tools/call":
                await self._answer_hugely(writer)
            else:
                self._answer(writer, asked)
            await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    def _answer(self, writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
        if "id" not in asked:
            status = "202 Accepted" if asked else "405 Method Not Allowed"
            writer.write(_head(status, "text/plain", 0))
            return
        result = answer("honest", asked)
        told = f'"result": {result}' if result else '"error": {"code": -32601, "message": "no"}'
        body = f'{{"jsonrpc": "2.0", "id": {json.dumps(asked["id"])}, {told}}}'.encode()
        writer.write(_head("200 OK", "application/json", len(body)) + body)

    async def _answer_hugely(self, writer: asyncio.StreamWriter) -> None:
        length = len(self._begin) + _HUGE if self._is_measured else None
        writer.write(_head(self._status, self._kind, length) + self._begin)
        while self.sent < _HUGE:
            writer.write(b"x" * 65536)
            await writer.drain()
            self.sent += 65536


_HUGE = 300 * 1024 * 1024


def _head(status: str, kind: str, length: int | None) -> bytes:
    measure = "" if length is None else f"Content-Length: {length}\r\n"
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{measure}Connection: close\r\n\r\n"
    return head.encode()


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("kind", "begin", "status", "is_measured"),
    [
        ("application/json", b'{"jsonrpc": "2.0", "id": 3, "result": "', "200 OK", True),
        ("application/json", b'{"jsonrpc": "2.0", "id": 3, "result": "', "200 OK", False),
        (EVENTS, b'data: {"jsonrpc": "2.0", "id": 3, "result": "', "200 OK", False),
        ("text/html", b"<html>", "500 Internal Server Error", False),
    ],
)
async def test_an_answer_over_http_is_read_no_further_than_its_limit(
    tmp_path: Path, kind: str, begin: bytes, status: str, is_measured: bool
) -> None:
    server = HugeAnswers(kind, begin, status, is_measured)
    async with server.serving() as spec, asyncio.timeout(patience()):
        with suppress(ToolServerFailed):
            async with opened(tmp_path, spec) as held:
                assert (await held.call("find", {})).is_error
    # Beside the limit, the system itself holds some of what is sent.
    assert server.sent < 3 * LONGEST_MESSAGE


def answered(result: object) -> dict[str, Any]:
    raw = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()
    reduced = reduce_message(raw)
    assert reduced is not None
    return dict(reduced["result"])


def test_of_a_result_only_its_texts_are_kept() -> None:
    picture = {"type": "image", "data": "A" * 100_000, "mimeType": "image/png"}
    inner = {"type": "resource", "resource": {"uri": "a:b", "text": "inner"}}
    kept = answered({"content": [{"type": "text", "text": "one"}, picture, inner], "isError": True})
    assert kept["content"] == [{"type": "text", "text": "one\n[image left out]\ninner"}]
    assert kept["isError"] is True
    (long,) = answered({"content": [{"type": "text", "text": "x" * 20_001}]})["content"]
    assert long["text"] == "x" * 20_000 + "\n[cut: 1 further character]"
    (only,) = answered({"content": [], "structuredContent": {"a": 1}})["content"]
    assert only["text"] == '{"a": 1}'


def test_of_a_tool_only_what_is_offered_is_kept() -> None:
    tool = {**json.loads(listing("honest"))["tools"][0], "outputSchema": {"$ref": "http://x"}}
    said = {"readOnlyHint": True, "openWorldHint": "no", "title": "x" * 100_000}
    (kept,) = answered({"tools": [tool]})["tools"]
    assert sorted(kept) == ["description", "inputSchema", "name"]
    (kept,) = answered({"tools": [{**tool, "annotations": said}]})["tools"]
    assert kept["annotations"] == {"readOnlyHint": True}


@pytest.mark.parametrize(
    "raw",
    [b"", b"hello", b"[]", b"{}", b"[" * 100_000, b'{"jsonrpc": "2.0"}', b"1" * 10_000, b"\xff"],
)
def test_what_is_no_message_is_none(raw: bytes) -> None:
    assert reduce_message(raw) is None
