"""A tab that does not read, does not answer or is gone does not delay others."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import aiohttp
import pytest
from tests.web.browser import SECONDS, Browser, eventually, signed_in_browser, unknown_browser
from tests.web.scene import Scene, make_scene, running
from tests.web.sign_in import protocols

from ollim_bot.errors import WriteFailed
from ollim_bot.surfaces.web.refusals import WebLimits


async def test_a_tab_that_does_not_read_is_dropped_and_slows_nobody(tmp_path: Path) -> None:
    limits = WebLimits(queued_frames=20, heartbeat_seconds=60)
    scene = make_scene(tmp_path, limits=limits)
    async with running(scene), signed_in_browser(scene) as browser, browser.tab() as (good, _):
        writer = await deaf_tab(scene, browser)
        await eventually(lambda: scene.surface.tabs == 2)
        for _ in range(300):
            if scene.surface.tabs == 1:
                break
            async with asyncio.timeout(SECONDS):
                await scene.reception.say("x" * 50_000)
            assert (await good.next())["type"] == "message"
        assert scene.surface.tabs == 1
        await scene.reception.say("still here")
        assert (await good.next())["message"]["text"] == "still here"
        writer.transport.abort()


async def deaf_tab(scene: Scene, browser: Browser) -> asyncio.StreamWriter:
    """A tab that says hello and then never reads from its socket."""
    offered = ", ".join(protocols(browser.session))
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.connect(("127.0.0.1", scene.surface.port))
    reader, writer = await asyncio.open_connection(sock=wire, limit=1024)
    writer.write(
        (
            f"GET /api/socket HTTP/1.1\r\nHost: 127.0.0.1:{scene.surface.port}\r\n"
            f"Origin: {scene.url}\r\nSec-WebSocket-Protocol: {offered}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ).encode()
    )
    async with asyncio.timeout(SECONDS):
        await reader.readuntil(b"\r\n\r\n")
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    hello = json.dumps({"type": "hello", "change": None}).encode()
    writer.write(bytes([0x81, 0x80 | len(hello)]) + bytes(4) + hello)
    return writer


async def test_a_tab_that_is_gone_is_noticed(tmp_path: Path) -> None:
    """Its machine sleeps: nothing is closed, and nothing answers the heartbeat."""
    limits = WebLimits(heartbeat_seconds=0.1)
    scene = make_scene(tmp_path, limits=limits)
    async with running(scene), signed_in_browser(scene) as browser:
        writer = await deaf_tab(scene, browser)
        await eventually(lambda: scene.surface.tabs == 1)
        await eventually(lambda: scene.surface.tabs == 0)
        writer.transport.abort()


@pytest.mark.parametrize(
    "first",
    [
        *("", "hello", "[]", "3", "null", '{"type": "other"}', '{"change": 1}', "[" * 60_000),
        "x" * 70_000,
    ],
)
async def test_who_does_not_say_hello_is_hung_up_on(
    scene: Scene, browser: Browser, first: str
) -> None:
    async with browser.connection() as tab:
        await tab.socket.send_str(first)
        assert await tab.closing() in (1008, 1009)
    await eventually(lambda: scene.surface.tabs == 0)


async def test_a_tab_that_cannot_be_greeted_is_hung_up_on_and_the_others_stay(
    scene: Scene, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    async with browser.tab() as (good, _), browser.connection() as tab:
        scene.reception.refusal = WriteFailed(Path("state/messages.jsonl"), "cannot be read.")
        await tab.socket.send_json({"type": "hello", "change": None})
        assert await tab.closing() == 1006
        assert "cannot be read" in caplog.text
        await scene.reception.say("still here")
        assert (await good.next())["type"] == "message"
    async with browser.connection() as tab:
        scene.reception.refusal = None
        await tab.socket.send_json({"type": "hello", "change": None})
        assert (await tab.next())["type"] == "hello"


async def test_who_says_nothing_is_hung_up_on(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, limits=WebLimits(hello_seconds=0.05))
    async with running(scene), signed_in_browser(scene) as browser, browser.connection() as tab:
        assert await tab.closing() == 1008


@pytest.mark.parametrize("change", [-1, 1.5, 10**30, [], {}, "1", False])
async def test_a_strange_change_is_none(browser: Browser, change: object) -> None:
    async with browser.connection() as tab:
        await tab.socket.send_json({"type": "hello", "change": change})
        assert (await tab.next())["messages"] == []


async def test_whatever_else_a_tab_says_is_ignored(scene: Scene, browser: Browser) -> None:
    async with browser.tab() as (tab, _):
        await tab.socket.send_str("nonsense")
        await tab.socket.send_bytes(b"\0")
        await scene.reception.say("hello")
        assert (await tab.next())["type"] == "message"


async def test_there_is_an_end_to_how_many_tabs_are_served(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, limits=WebLimits(tabs=2))
    async with running(scene), signed_in_browser(scene) as browser, browser.tab(), browser.tab():
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with browser.tab():
                pass
        assert refused.value.status == 503


async def test_tabs_are_told_goodbye_when_the_bot_ends(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    async with unknown_browser(scene) as browser:
        async with running(scene):
            await browser.enter()
            greeted = asyncio.Event()
            reading = asyncio.create_task(end_of_tab(browser, greeted))
            await greeted.wait()
        assert await reading == aiohttp.WSCloseCode.GOING_AWAY


async def end_of_tab(browser: Browser, greeted: asyncio.Event) -> int | None:
    async with browser.tab() as (tab, _):
        greeted.set()
        return await tab.closing()


async def test_the_bot_knows_whether_an_open_page_is_in_view_or_may_notify(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    surface = scene.surface

    def state() -> tuple[bool, bool]:
        return surface.is_in_view, surface.may_notify

    async with running(scene), signed_in_browser(scene) as browser:
        async with browser.tab() as (tab, _):
            assert state() == (False, False)
            await tab.socket.send_str('{"type":"presence","seen":true,"notifies":false}')
            await eventually(lambda: state() == (True, False))
            for other in ("[" * 9999, '{"type":"presence","seen":1,"notifies":2}', "null"):
                await tab.socket.send_str(other)
            await tab.socket.send_bytes(b"x")
            await tab.socket.send_str('{"type":"presence","seen":false,"notifies":true}')
            await eventually(lambda: state() == (False, True))
            told = await tab.next()
            assert (told["type"], told["panel"]) == ("stale", "today"), "it says what reaches you"
        await eventually(lambda: state() == (False, False))
