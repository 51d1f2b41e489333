"""Idle connections of others do not keep the owner from the page."""

from __future__ import annotations

import asyncio
import io
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.log_sink import root_logger_restored, sink
from tests.patience import eventually
from tests.surfaces.web.browser import SECONDS, raw, served, signed_in_browser, unknown_browser
from tests.surfaces.web.scene import Scene, make_scene, running

from ollim_bot.kernel.base.loopback import Connections, allow_many_descriptors
from ollim_bot.kernel.base.settings import LogFormat, LogLevel
from ollim_bot.surfaces.web.access import WebLimits

CROWD = 1200
HELD = WebLimits().connections
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
# Its head is complete, and its body does not come.
SLOW = (
    b"POST /api/enter HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\n"
    b"Content-Length: 4000\r\n\r\n"
)


@pytest.fixture(autouse=True)
def descriptors() -> Iterator[None]:
    """Allow enough file descriptors for both ends of all connections: both are in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    allow_many_descriptors()
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def open_connections(port: int, count: int, said: bytes = b"") -> list[socket.socket]:
    """Connect in steps, since the server accepts them in this event loop."""
    made = []
    for _ in range(count):
        each = socket.socket()
        each.setblocking(False)
        await asyncio.get_running_loop().sock_connect(each, ("127.0.0.1", port))
        with suppress(OSError):
            each.send(said)
        made.append(each)
    return made


async def open_and_close_connections(port: int, count: int, held: int) -> None:
    idle = await open_connections(port, count)
    await eventually(lambda: sum(map(is_open, idle)) <= held)
    for each in idle:
        each.close()


def is_open(wire: socket.socket) -> bool:
    try:
        while wire.recv(65536):
            pass
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False


@pytest.mark.parametrize(
    "said", [b"", b"GET / HTTP/1.1\r\nHost: loc", SLOW], ids=["silent", "head", "body"]
)
async def test_a_crowd_that_proves_nothing_keeps_nobody_out(tmp_path: Path, said: bytes) -> None:
    with root_logger_restored():
        log = sink(LogFormat.TEXT, level=LogLevel.DEBUG)
        scene = make_scene(tmp_path)
        async with running(scene), signed_in_browser(scene) as browser, browser.tab() as (tab, _):
            idle = await open_connections(scene.surface.port, CROWD, said)
            try:
                await check_service(scene, log)
                await scene.reception.say("news")
                assert (await tab.next())["type"] == "message"
                assert sum(map(is_open, idle)) <= HELD
            finally:
                for each in idle:
                    each.close()


async def check_service(scene: Scene, log: io.StringIO) -> None:
    async with unknown_browser(scene) as supervisor, signed_in_browser(scene) as owner:
        began = time.perf_counter()
        assert (await supervisor.get("/healthz")).status == 200
        assert time.perf_counter() - began < 10
        assert (await owner.get("/")).status == 200
        assert (await owner.send("hello")).status == 200
        async with owner.tab() as (_, hello):
            assert hello["type"] == "hello"
        assert len(scene.surface.connections) <= HELD
    assert len(log.getvalue()) < 20_000


async def test_a_stranger_that_only_drips_is_hung_up_on(tmp_path: Path) -> None:
    """It may keep sending a little: headers, a body, or one request after another."""
    limits = WebLimits(stranger_seconds=0.3)
    pieces = (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", SLOW, HEALTH)
    async with running(make_scene(tmp_path, limits=limits)) as scene:

        async def drip(head: bytes) -> None:
            [wire] = await open_connections(scene.surface.port, 1, head)
            drop = head if b"healthz" in head else b"X"
            async with asyncio.timeout(SECONDS):
                while is_open(wire):
                    with suppress(OSError):
                        wire.send(drop)
                    await asyncio.sleep(0.01)
            wire.close()

        await asyncio.gather(*map(drip, pieces))
        await eventually(lambda: len(scene.surface.connections) == 0)


async def test_the_owners_connections_stay_however_old_they_are(tmp_path: Path) -> None:
    # Long enough for the owner to get in on a busy machine.
    limits = WebLimits(stranger_seconds=3, strangers=3, connections=8)
    async with served(tmp_path, limits=limits) as (scene, browser), browser.tab() as (tab, _):
        [witness] = await open_connections(scene.surface.port, 1, b"GET / HTTP/1.1\r\n")
        await eventually(lambda: not is_open(witness))
        witness.close()
        await open_and_close_connections(scene.surface.port, 60, 8)
        await scene.reception.say("still here")
        assert (await tab.next())["message"]["text"] == "still here"


async def test_who_has_sent_no_complete_head_goes_first(tmp_path: Path) -> None:
    limits = WebLimits(strangers=2, connections=4)
    async with running(make_scene(tmp_path, limits=limits)) as scene:
        port = scene.surface.port
        [asking] = await open_connections(port, 1, HEALTH)
        assert (await asyncio.get_running_loop().sock_recv(asking, 100)).startswith(b"HTTP/1.1 200")
        [speaking] = await open_connections(port, 1, HEALTH[:-2])
        idle = await open_connections(port, 12)
        await eventually(lambda: sum(map(is_open, idle)) == 3)
        assert [is_open(each) for each in (asking, speaking)] == [True, False]
        assert [is_open(each) for each in idle] == [False] * 9 + [True] * 3
        for each in (asking, speaking, *idle):
            each.close()


async def test_strangers_with_a_request_take_no_room_from_those_who_are_about_to_ask(
    tmp_path: Path,
) -> None:
    limits = WebLimits(strangers=4, connections=12)
    async with running(make_scene(tmp_path, limits=limits)) as scene:
        slow = await open_connections(scene.surface.port, 20, SLOW)
        await eventually(lambda: sum(map(is_open, slow)) == 4)
        idle = await open_connections(scene.surface.port, 8)
        await eventually(lambda: len(scene.surface.connections) == 12)
        assert sum(map(is_open, idle)) == 8
        for each in (*slow, *idle):
            each.close()


async def test_who_asks_at_once_is_answered_amid_a_crowd(tmp_path: Path) -> None:
    """All connect before the server accepts the first, and the caller is the first of them."""
    limits = WebLimits(connections=150, strangers=30)
    async with running(make_scene(tmp_path, limits=limits)) as scene:
        crowd = []
        for _ in range(201):
            each = socket.socket()
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", scene.surface.port))
            crowd.append(each)
        caller = crowd[0]
        caller.send(HEALTH)
        async with asyncio.timeout(SECONDS):
            answer = await asyncio.get_running_loop().sock_recv(caller, 100)
        assert answer.startswith(b"HTTP/1.1 200")
        await eventually(lambda: sum(map(is_open, crowd)) == 150)
        for each in crowd:
            each.close()


async def test_where_all_places_are_the_owners_a_stranger_finds_none(tmp_path: Path) -> None:
    limits = WebLimits(connections=2, strangers=2)
    async with served(tmp_path, limits=limits) as (scene, browser):
        async with browser.tab(), browser.tab():
            assert await raw(scene, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") == b""
        await eventually(lambda: len(scene.surface.connections) < 2)
        async with unknown_browser(scene) as other:
            assert (await other.get("/healthz")).status == 200


def test_the_bounds_stay_far_below_what_the_process_may_open() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        few = Connections(200, 100, 1)
        assert (few.most, few.most_strangers) == (64, 32)
        allow_many_descriptors()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(8192, before[1])
        assert Connections(200, 100, 1).most == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


class NoteSizes(asyncio.Protocol):
    """Tells of a body of a megabyte once it has got ten bytes, and notes what it is given."""

    def __init__(self, connections: Connections) -> None:
        self.sizes: list[int] = []
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.sizes.append(len(data))
        if sum(self.sizes) == 10:
            self._connections.note_head(self._transport, 1_000_000)


async def test_a_body_of_known_length_is_read_in_large_pieces_and_nothing_else() -> None:
    connections = Connections(10, 5, 60)
    noted = NoteSizes(connections)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(connections.guarded(lambda: noted), "127.0.0.1", 0)
    async with server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"x" * 10)
        await eventually(lambda: sum(noted.sizes) == 10)
        writer.write(b"x" * 1_100_000)
        await eventually(lambda: sum(noted.sizes) == 1_100_010)
        writer.close()
        await eventually(lambda: len(connections) == 0)
    assert max(noted.sizes) > 16_000
    sizes = list(noted.sizes)
    while sum(sizes) > 100_000:
        sizes.pop(0)
    assert len(sizes) > 90
    assert max(sizes) <= 1024
