"""The page as a surface: shows the conversation in all its tabs."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path

from aiohttp import WSCloseCode, WSMsgType, web

from ollim_bot.kernel.base import loopback
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.loopback import Connections
from ollim_bot.kernel.base.settings import Secret
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.ports import ChatService, OpenAttachment, Status
from ollim_bot.surfaces.web import frames
from ollim_bot.surfaces.web.access import (
    BROWSER,
    HEALTH,
    PROTOCOL,
    SOCKET,
    STATUS,
    AccessControl,
    BrowserKeys,
    WebLimits,
    add_headers,
    forget_former_cookie,
    refusals_in_shape,
    refusing_changes,
)
from ollim_bot.surfaces.web.api import NAME, Api, KeptMark, ReadMark, Uploads
from ollim_bot.surfaces.web.frames import Json, RequestRefused, command_json, status_json
from ollim_bot.surfaces.web.marked import ViewPage
from ollim_bot.surfaces.web.panels import Panels
from ollim_bot.surfaces.web.presenter import RenderedMessages, WebPresenter
from ollim_bot.surfaces.web.secret import address

_NEWEST = 60
_LARGEST_CHANGE = 2**53


# The frames in which a page says whether it is in view, and whether it may notify.
_PRESENCES = {
    f'{{"type":"presence","seen":{seen},"notifies":{notifies}}}': (
        seen == "true",
        notifies == "true",
    )
    for seen in ("true", "false")
    for notifies in ("true", "false")
}


class Tab:
    """An open tab with its queue of frames. A tab that does not read is disconnected."""

    def __init__(
        self,
        limit: int,
        socket: web.WebSocketResponse,
        wire: asyncio.Transport | None,
        browser: str,
    ) -> None:
        self.browser = browser
        self._waiting: asyncio.Queue[tuple[Json, str]] = asyncio.Queue(limit)
        self._socket = socket
        self._wire = wire
        self._is_greeted = False
        self.is_in_view = self.may_notify = False

    def heard(self, text: object) -> None:
        """Take what the page says of itself; anything else is ignored."""
        if (said := _PRESENCES.get(text) if isinstance(text, str) else None) is not None:
            self.is_in_view, self.may_notify = said

    def offer(self, frame: Json, text: str) -> None:
        # Only messages are queued before the greeting, which has the current state of all else.
        if not self._is_greeted and frame["type"] != "message":
            return
        try:
            self._waiting.put_nowait((frame, text))
        except asyncio.QueueFull:
            self.hang_up()

    def greet(self, hello: Json, known: Mapping[str, Json]) -> None:
        """Send the greeting first, then the queued messages that are not in it."""
        waiting = [self._waiting.get_nowait() for _ in range(self._waiting.qsize())]
        self._is_greeted = True
        self.offer(hello, json.dumps(hello))
        for frame, text in waiting:
            message = frame["message"]
            if not isinstance(message, dict) or known.get(str(message["id"])) != message:
                self.offer(frame, text)

    async def write(self) -> None:
        while True:
            _, text = await self._waiting.get()
            await self._socket.send_str(text)

    async def close(self) -> None:
        """Close the socket, and wait for its answer."""
        await self._socket.close(code=WSCloseCode.GOING_AWAY)

    def hang_up(self) -> None:
        if self._wire is not None:
            self._wire.abort()


class Tabs:
    """All open tabs: whether one is in view, and whether one shows notifications of its own."""

    def __init__(self, limits: WebLimits) -> None:
        self._limits = limits
        self._tabs: set[Tab] = set()

    def __len__(self) -> int:
        return len(self._tabs)

    @contextmanager
    def joined(
        self, socket: web.WebSocketResponse, wire: asyncio.Transport | None, browser: str
    ) -> Iterator[Tab]:
        tab = Tab(self._limits.queued_frames, socket, wire, browser)
        self._tabs.add(tab)
        try:
            yield tab
        finally:
            self._tabs.discard(tab)

    def send(self, frame: Json) -> None:
        """Queue the frame for all tabs; returns at once."""
        if self._tabs:
            text = json.dumps(frame)
            for tab in tuple(self._tabs):
                tab.offer(frame, text)

    @property
    def is_in_view(self) -> bool:
        return any(tab.is_in_view for tab in self._tabs)

    @property
    def may_notify(self) -> bool:
        return any(tab.may_notify for tab in self._tabs)

    def browsers(self) -> set[str]:
        return {tab.browser for tab in self._tabs}

    def hang_up(self, browser: str | None) -> None:
        """Disconnect the tabs of that browser, or all."""
        for tab in tuple(self._tabs):
            if browser in (None, tab.browser):
                tab.hang_up()

    async def close(self, _: web.Application | None = None) -> None:
        """Close all sockets, without waiting long for their answers."""
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                closing = (tab.close() for tab in tuple(self._tabs))
                await asyncio.gather(*closing, return_exceptions=True)


@dataclass(frozen=True)
class TabSocket:
    _reception: ChatService
    _book: RenderedMessages
    _presenter: WebPresenter
    _read: ReadMark
    _panels: Panels
    _tabs: Tabs
    _limits: WebLimits
    _keys: BrowserKeys

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if len(self._tabs) >= self._limits.tabs:
            raise RequestRefused(503, frames.TOO_MANY_TABS)
        socket = web.WebSocketResponse(
            heartbeat=self._limits.heartbeat_seconds,
            max_msg_size=self._limits.body,
            compress=False,
            protocols=(PROTOCOL,),
        )
        await socket.prepare(request)
        browser = request[BROWSER]
        with self._tabs.joined(socket, request.transport, browser) as tab:
            try:
                async with asyncio.timeout(self._limits.hello_seconds):
                    change, nonce = _hello(await socket.receive())
            except (ValueError, RecursionError, TimeoutError):
                await socket.close(code=WSCloseCode.POLICY_VIOLATION)
                return socket
            await self._greet(tab, change, self._keys.proof_on_socket(browser, nonce))
            writing = asyncio.create_task(tab.write())
            try:
                async for frame in socket:
                    could_notify = tab.may_notify
                    tab.heard(frame.data)
                    if tab.may_notify != could_notify:
                        await self._panels.renew_reach()
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
        if tab.may_notify:
            await self._panels.renew_reach()
        return socket

    async def _greet(self, tab: Tab, change: int | None, proof: str) -> None:
        """Send a returning tab what it has missed, any other one the newest messages.

        By `proof` the page recognises the bot.
        """
        # Read the number first: a change in between is then sent twice instead of being lost.
        last = await self._reception.last_change()
        missed = messages = None
        has_more = False
        if change is not None:
            changes = await self._reception.changes_since(change, self._limits.missed_messages)
            if changes is not None:
                missed = await self._book.shown([each.message for each in changes])
        if missed is None:
            newest = await self._reception.history(_NEWEST + 1)
            messages, has_more = await self._book.shown(newest[-_NEWEST:]), len(newest) > _NEWEST
        panels = await self._panels.states()
        known = {str(each["id"]): each for each in messages or missed or ()}
        # No await from here on, so that no frame comes in between.
        tab.greet(
            {
                "type": "hello",
                "proof": proof,
                "status": status_json(self._reception.status),
                "commands": [command_json(each) for each in self._reception.commands],
                "messages": messages,
                "missed": missed,
                "change": last,
                "has_more": has_more,
                "live": self._presenter.live(),
                "read": self._read.last,
                "panels": panels,
            },
            known,
        )


def _hello(first: object) -> tuple[int | None, str]:
    """The newest change of the log that the tab has, and the nonce that it wants a proof for.

    Raises `ValueError` for anything but a greeting.
    """
    kind, text = getattr(first, "type", None), getattr(first, "data", None)
    hello = json.loads(text) if kind is WSMsgType.TEXT and isinstance(text, str) else None
    if not isinstance(hello, dict) or hello.get("type") != "hello":
        raise ValueError("not a greeting")
    change, nonce = hello.get("change"), hello.get("nonce")
    return (
        change if type(change) is int and 0 <= change <= _LARGEST_CHANGE else None,
        nonce if isinstance(nonce, str) else "",
    )


FOLDER = Path(__file__).parent / "static"
PAGE = "index.html"

_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}

# An update needs a new start, and that has another folder.
_KEPT = "private, max-age=31536000, immutable"


async def send_page(folder: str, pages: Sequence[ViewPage]) -> web.Response:
    """Send the page, with its views, and with links to the static files in `folder`.

    The name of `folder` is random at each start, so that the browser's cache cannot hold files of a
    program that had the port before.
    """
    content = await asyncio.to_thread(_content, PAGE)
    if content is None:
        raise RequestRefused(404, frames.NO_PAGE)
    views = json.dumps([each.json for each in pages], separators=(",", ":"))
    body = content.replace(b'"/static/', f'"/static/{folder}/'.encode())
    body = body.replace(b'data-views=""', f'data-views="{escape(views)}"'.encode())
    return web.Response(body=body, content_type="text/html", charset="utf-8")


async def send_static(request: web.Request, name: str, cache: str) -> web.Response:
    """Send a file, with `cache` as the rule for the browser's cache."""
    content = await asyncio.to_thread(_content, name)
    if content is None:
        raise RequestRefused(404, frames.NOT_FOUND)
    tag = hashlib.sha256(content).hexdigest()[:32]
    headers = {"ETag": f'"{tag}"', "Cache-Control": cache}
    if any(each.value == tag or each.value == "*" for each in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    kind = _TYPES[Path(name).suffix]
    charset = "utf-8" if kind.startswith("text/") else None
    return web.Response(body=content, content_type=kind, charset=charset, headers=headers)


def _content(name: str) -> bytes | None:
    """Compare with the listing, so that no spelling of a name leads out of the folder."""
    for path in FOLDER.iterdir():
        if path.name == name and path.suffix in _TYPES and not path.is_symlink():
            return path.read_bytes() if path.is_file() else None
    return None


def page_app(
    pages: Sequence[ViewPage],
    access: AccessControl,
    api: Api,
    socket: TabSocket,
    limits: WebLimits,
    health: Callable[[], object],
    read_only: Callable[[], str] | None,
) -> web.Application:
    folder = secrets.token_hex(8)

    async def page(request: web.Request) -> web.Response:
        answer = await send_page(folder, pages)
        forget_former_cookie(request, answer)
        return answer

    async def static(request: web.Request) -> web.Response:
        name, named = request.match_info["name"], request.match_info.get("folder")
        if named is None:
            return await send_static(request, name, "no-cache")
        if named != folder:
            raise RequestRefused(404, frames.NOT_FOUND)
        return await send_static(request, name, _KEPT)

    async def healthy(_: web.Request) -> web.Response:
        return web.json_response(health())

    changes = [] if read_only is None else [refusing_changes(read_only)]
    app = web.Application(
        client_max_size=limits.body, middlewares=[refusals_in_shape, access.admit, *changes]
    )
    app.on_response_prepare.append(add_headers)
    app.add_routes(
        [
            web.get(f"/{{place:{access.shells.pattern.removeprefix('/')}}}", page),
            web.get("/static/{name}", static),
            web.get("/static/{folder}/{name}", static),
            web.get(HEALTH, healthy),
            web.get(SOCKET, socket.serve),
            *access.routes(),
            *api.routes(),
        ]
    )
    return app


class WebSurface:
    """A `ChatSurface`. No method waits for a tab. Beside the conversation it shows the `pages`.

    Port 0 is any free one, and `hosts` are further names of the page. `uploads` is a folder of its
    own, emptied at each start. With `read_only` nothing can be changed here: it returns the
    sentence that says why.
    """

    name = NAME

    def __init__(
        self,
        *,
        pages: Sequence[ViewPage],
        port: int,
        hosts: Sequence[str],
        keys: BrowserKeys,
        uploads: Path,
        open_attachment: OpenAttachment,
        read_mark: KeptMark,
        clock: Clock,
        version: str,
        heartbeat_age: Callable[[], float | None] = lambda: None,
        limits: WebLimits | None = None,
        read_only: Callable[[], str] | None = None,
    ) -> None:
        self._read_only = read_only
        self._port = port
        self._keys = keys
        self._limits = limits = limits or WebLimits()
        self.connections = Connections(
            limits.connections, limits.strangers, limits.stranger_seconds
        )
        self._pages = pages
        shells = re.compile(f"/({'|'.join(each.pattern for each in pages)})?")
        self._access = AccessControl(
            keys, hosts, shells, limits, lambda request: self.connections.trust(request.transport)
        )
        self._open_attachment = open_attachment
        self._uploads = Uploads(uploads, limits)
        self._kept_mark = read_mark
        self._version, self._heartbeat_age = version, heartbeat_age
        self._clock = clock
        self.tabs = Tabs(limits)
        keys.ended = self.tabs.hang_up
        self._presenter = WebPresenter(clock, self.tabs.send)
        self.present = self._presenter.present
        self._book: RenderedMessages | None = None
        self._in_order = asyncio.Lock()
        self._is_serving = asyncio.Event()

    @property
    def port(self) -> int:
        """The actual port, once it serves."""
        return self._port

    @property
    def secret(self) -> Secret:
        """The secret, to be redacted from logs."""
        return self._keys.secret

    async def ready(self) -> None:
        """Return when the page can be opened."""
        await self._is_serving.wait()

    def address(self) -> str:
        """An address that admits one browser: for the owner's terminal, never for a log."""
        return address(self._port, self._keys.code())

    async def run(self, reception: ChatService) -> None:
        """Serve until cancelled. Raises `OllimError` if the port is not available."""
        await self._uploads.prepare()
        book = RenderedMessages(reception)
        read, limits = ReadMark(self._kept_mark, reception, self.tabs.send), self._limits
        await read.load()
        panels = Panels(self._pages, reception.views, self._clock, self.tabs.send)
        api = Api(reception, book, read, panels, self._uploads, self._open_attachment, limits)
        socket = TabSocket(
            reception, book, self._presenter, read, panels, self.tabs, limits, self._keys
        )
        app = page_app(
            self._pages, self._access, api, socket, limits, self._health, self._read_only
        )
        app[STATUS] = lambda: reception.status
        app.on_shutdown.append(self.tabs.close)
        await self._keys.open()
        async with loopback.serving(
            app,
            self._port,
            self.connections,
            self._refusal,
            idle_seconds=limits.idle_seconds,
            linger_seconds=limits.linger_seconds,
        ) as self._port:
            self._book = book
            self._is_serving.set()
            watching = asyncio.create_task(panels.watch())
            try:
                await self._keys.watch(self.tabs.browsers)
            finally:
                watching.cancel()
                self._is_serving.clear()
                self._book = None

    def _health(self) -> dict[str, object]:
        """What the page says to those who only ask whether the bot runs."""
        return {"status": "ok", "version": self._version, "heartbeat_age": self._heartbeat_age()}

    def _refusal(self, refused: OSError) -> str:
        if refused.errno == errno.EADDRINUSE:
            return frames.port_taken(self._port)
        return frames.port_refused(self._port, refused.strerror or str(refused))

    async def post(self, message: ChatMessage, change: int = 0) -> None:
        async with self._in_order:
            if self._book is not None:
                [shown] = await self._book.shown([message])
                self.tabs.send({"type": "message", "message": shown, "change": change})
            self._presenter.answered(message)

    async def changed(self, status: Status) -> None:
        self.tabs.send({"type": "status", "status": status_json(status)})
