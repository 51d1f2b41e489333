"""The server listens on loopback only, limits slow clients, and never shows the secret."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import sys
from pathlib import Path

import pytest
from tests.log_sink import root_logger_restored, sink
from tests.patience import eventually
from tests.surfaces.web.browser import SECONDS, Browser, raw, signed_in_browser, unknown_browser
from tests.surfaces.web.scene import SECRET, Scene, make_scene, running

from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.settings import LogFormat, LogLevel
from ollim_bot.surfaces.web.access import WebLimits


async def test_a_port_that_is_taken_is_told_with_the_setting_that_changes_it(
    scene: Scene, tmp_path: Path
) -> None:
    port = scene.surface.port
    with pytest.raises(OllimError, match=f"port {port}: another program.*OLLIM_WEB_PORT"):
        async with running(make_scene(tmp_path / "other", port=port)):
            pass


@pytest.mark.skipif(sys.platform != "linux", reason="needs a second loopback address")
async def test_only_this_machine_is_served(scene: Scene) -> None:
    with socket.socket() as elsewhere:
        # Another loopback address has this port free, so the server is not on all addresses.
        elsewhere.bind(("127.0.0.2", scene.surface.port))


async def test_the_address_has_the_real_port_and_not_the_secret(scene: Scene) -> None:
    assert re.fullmatch(rf"{scene.url}/\?[0-9a-f]{{8}}#[\w.-]{{60,}}", scene.surface.address())
    assert SECRET.reveal() not in scene.surface.address()
    assert scene.surface.port != 0


async def test_after_its_end_nobody_answers(tmp_path: Path) -> None:
    async with running(make_scene(tmp_path)) as scene:
        port = scene.surface.port
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_it_can_be_started_again_at_the_same_port(tmp_path: Path) -> None:
    async with running(make_scene(tmp_path)) as scene:
        port = scene.surface.port
    async with running(scene), unknown_browser(scene) as other:
        assert scene.surface.port == port
        assert (await other.get("/healthz")).status == 200


async def test_a_start_that_fails_can_be_repeated(scene: Scene, tmp_path: Path) -> None:
    second = make_scene(tmp_path / "other", port=scene.surface.port)
    with pytest.raises(OllimError):
        async with running(second):
            pass
    third = make_scene(tmp_path / "third")
    async with running(third), signed_in_browser(third) as browser:
        assert (await browser.get("/")).status == 200


async def test_it_ends_soon_though_a_command_runs(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    scene.reception.may_answer.clear()
    async with asyncio.timeout(SECONDS), unknown_browser(scene) as browser:
        async with running(scene):
            await browser.enter()
            asking = asyncio.create_task(browser.post("/api/commands", {"line": "/compact"}))
            await eventually(lambda: scene.reception.calls)
        await asyncio.gather(asking, return_exceptions=True)
    assert scene.reception.lines == []


async def test_who_goes_away_does_not_end_a_command(scene: Scene, browser: Browser) -> None:
    scene.reception.may_answer.clear()
    asking = asyncio.create_task(browser.post("/api/commands", {"line": "/compact"}))
    await eventually(lambda: scene.reception.calls)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert (await browser.get("/api/completions")).status == 200
    scene.reception.may_answer.set()
    await eventually(lambda: scene.reception.lines)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
async def test_who_says_nothing_or_never_ends_is_hung_up_on(tmp_path: Path, sent: bytes) -> None:
    limits = WebLimits(idle_seconds=0.1)
    async with running(make_scene(tmp_path, limits=limits)) as scene:
        assert await raw(scene, sent) == b""


async def test_a_body_without_end_of_a_stranger_is_not_waited_for(tmp_path: Path) -> None:
    limits = WebLimits(linger_seconds=0.1)
    head = b"POST /api/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\nx"
    async with running(make_scene(tmp_path, limits=limits)) as scene:
        assert (await raw(scene, head)).startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize(
    "request_line",
    [
        "GET /" + "x" * 20_000 + " HTTP/1.1",
        "FOO / HTTP/1.1",
        "nonsense",
        f"GET /?token={SECRET.reveal()} HTTP/9.9",
        f"GET /?token={SECRET.reveal()} HTTP/1.1\r\nbad header",
        f"GET /?token={SECRET.reveal()} HTTP/1.1\r\n" + "X: y\r\n" * 1000,
    ],
)
async def test_what_is_no_http_is_refused_and_not_logged(
    scene: Scene, request_line: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.surface.port)
    writer.write(f"{request_line}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    async with asyncio.timeout(SECONDS):
        # The rest of a long request is not read, so that the connection is reset after the answer.
        assert (await reader.readline()).split()[1] == b"400"
    writer.close()
    assert SECRET.reveal() not in caplog.text
    assert "Traceback" not in caplog.text


async def test_the_secret_is_in_no_answer_and_in_no_log(scene: Scene) -> None:
    """This holds even if the log does not know the secret."""
    with root_logger_restored():
        log = sink(LogFormat.TEXT, level=LogLevel.DEBUG)
        async with unknown_browser(scene) as browser:
            await browser.enter()
            replies = [await browser.get("/"), await browser.get("/api/messages")]
            replies += [await browser.get(f"/?token={SECRET.reveal()}x")]
            replies += [await browser.get(f"/{SECRET.reveal()}"), await browser.post("/", {})]
            replies += [await browser.get(f"/api/messages?before={SECRET.reveal()}")]
            scene.reception.refusal = LookupError("oh")
            replies += [await browser.send("hello")]
            scene.reception.refusal = None
            async with browser.tab() as (_, hello):
                assert SECRET.reveal() not in str(hello)
    for reply in replies:
        assert SECRET.reveal() not in f"{reply.headers}{reply.body!r}"
    written = log.getvalue()
    assert "LookupError" in written
    assert SECRET.reveal() not in written


async def test_requests_leave_no_trace_in_the_log(
    browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await browser.get("/")
    await browser.send("a private word")
    async with browser.tab():
        pass
    assert caplog.text == ""


async def test_fifty_requests_at_once_get_their_own_answers(scene: Scene, browser: Browser) -> None:
    for number in range(50):
        await scene.reception.say(f"number {number}")
    replies = await asyncio.gather(
        *(browser.get(f"/api/messages?limit=1&before=m{number}") for number in range(2, 51))
    )
    assert [reply.json["messages"][0]["id"] for reply in replies] == [
        f"m{number}" for number in range(1, 50)
    ]


@pytest.mark.parametrize("line", [b"GET /healthz HTTP/1.1", b"GET /api/messages HTTP/1.1", b"no"])
async def test_no_answer_names_the_versions_of_the_server(scene: Scene, line: bytes) -> None:
    answer = (await raw(scene, line + b"\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")).lower()
    assert answer.startswith(b"http/1.")
    assert b"python" not in answer
    assert b"aiohttp" not in answer


async def test_a_host_in_the_first_line_is_not_decoded(scene: Scene) -> None:
    """To decode it takes long, and fails for this one."""
    request = b"GET http://xn--a/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    assert (await raw(scene, request)).startswith(b"HTTP/1.1 200")
