"""A client that sends the same requests as the owner's browser."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import aiohttp
from tests.surfaces.web.scene import Scene, make_scene, running
from tests.surfaces.web.sign_in import NONCE, BrowserKey, SignInClient, protocols

LIMIT = aiohttp.ClientTimeout(total=60)
SECONDS = 180.0
BOUNDARY = "----WebKitFormBoundary7MA4YWxkTrZu0gW"


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"])


def _part(disposition: str, content: bytes) -> bytes:
    head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n"
    return head.encode() + content + b"\r\n"


def _escaped(name: str) -> str:
    """The file name as browsers escape it: only quotes and line ends."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


class Tab:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(SECONDS):
            return dict(json.loads(await self.socket.receive_str()))

    async def until(self, kind: str) -> dict[str, Any]:
        while (frame := await self.next())["type"] != kind:
            pass
        return frame

    async def closing(self) -> int | None:
        """Wait until the server closes the socket, and return the close code."""
        async with asyncio.timeout(SECONDS):
            while not (await self.socket.receive()).type.name.startswith(("CLOS", "ERROR")):
                pass
        return self.socket.close_code


class Browser:
    """Sends requests as the page does. `headers` replace the headers of the page."""

    def __init__(self, http: aiohttp.ClientSession, scene: Scene) -> None:
        self._http = http
        self._scene = scene
        self.key: BrowserKey | None = None
        self.session = ""

    @property
    def origin(self) -> str:
        return self._scene.url

    @property
    def sign_in(self) -> SignInClient:
        return SignInClient(self._http, self._scene.url)

    async def enter(self) -> None:
        """Sign in: with an address from the terminal the first time, later with the stored key."""
        if self.key is None:
            self.key = await self.sign_in.enter(self._scene.surface.address().partition("#")[2])
        self.session = await self.sign_in.session(self.key)

    async def ask(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> Reply:
        defaults = {"Origin": self.origin} if method == "POST" else {}
        defaults |= {"Authorization": f"Bearer {self.session}"} if self.session else {}
        given = {name: value for name, value in (defaults | dict(headers or {})).items() if value}
        async with self._http.request(
            method, self._scene.url + path, headers=given, allow_redirects=False, **more
        ) as response:
            return Reply(response.status, response.headers, await response.read())

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.ask("GET", path, headers=headers)

    async def raw_get(self, path: str, host: str = "127.0.0.1") -> bytes:
        """The whole answer to a path that is sent as it is: an HTTP client would normalise it."""
        right = f"Authorization: Bearer {self.session}"
        head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{right}\r\nConnection: close\r\n\r\n"
        return await raw(self._scene, head)

    async def post(self, path: str, value: object, **headers: str) -> Reply:
        return await self.ask("POST", path, json=value, headers=headers)

    async def send(
        self,
        text: str = "hello",
        *files: tuple[str, bytes],
        message_id: str | None = None,
        reply_to: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a message in the multipart form that the page uses."""
        fields = {"id": message_id or str(uuid4()), "text": text, "reply_to": reply_to}
        parts = [_part(f'name="{name}"', value.encode()) for name, value in fields.items()]
        parts += [_part(f'name="file"; filename="{_escaped(name)}"', data) for name, data in files]
        body = b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()
        given = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}", **(headers or {})}
        return await self.ask("POST", "/api/messages", data=io.BytesIO(body), headers=given)

    @asynccontextmanager
    async def connection(self, **headers: str) -> AsyncIterator[Tab]:
        """An open socket on which the tab has not said hello yet."""
        given = {"Origin": self.origin} | headers
        async with self._http.ws_connect(
            f"{self._scene.url}/api/socket",
            headers={k: v for k, v in given.items() if v},
            protocols=protocols(self.session),
        ) as socket:
            yield Tab(socket)

    @asynccontextmanager
    async def tab(self, change: int | None = None) -> AsyncIterator[tuple[Tab, dict[str, Any]]]:
        """An open tab, and the first frame that the server sent to it."""
        async with self.connection() as tab:
            await tab.socket.send_json({"type": "hello", "change": change, "nonce": NONCE})
            yield tab, await tab.next()


@asynccontextmanager
async def unknown_browser(scene: Scene) -> AsyncIterator[Browser]:
    """A browser that has never signed in."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(timeout=LIMIT, cookie_jar=jar) as http:
        yield Browser(http, scene)


@asynccontextmanager
async def signed_in_browser(scene: Scene) -> AsyncIterator[Browser]:
    async with unknown_browser(scene) as browser:
        await browser.enter()
        yield browser


@asynccontextmanager
async def served(folder: Path, **settings: Any) -> AsyncIterator[tuple[Scene, Browser]]:
    """A page with these settings, as for `make_scene`, and a browser that is signed in there."""
    async with (
        running(make_scene(folder, **settings)) as scene,
        signed_in_browser(scene) as browser,
    ):
        yield scene, browser


async def raw(scene: Scene, request: str | bytes) -> bytes:
    """Send these bytes, and return all bytes until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.surface.port)
    try:
        writer.write(request.encode() if isinstance(request, str) else request)
        async with asyncio.timeout(SECONDS):
            return await reader.read()
    finally:
        writer.close()
