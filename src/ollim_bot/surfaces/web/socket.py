"""The sockets of open tabs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from aiohttp import WSCloseCode, WSMsgType, web

from ollim_bot.ports import ChatService
from ollim_bot.surfaces.web import texts
from ollim_bot.surfaces.web.access import BROWSER, PROTOCOL
from ollim_bot.surfaces.web.frames import Json, command_json, status_json
from ollim_bot.surfaces.web.keys import BrowserKeys
from ollim_bot.surfaces.web.limits import WebLimits
from ollim_bot.surfaces.web.panels import TODAY, TodayPanel
from ollim_bot.surfaces.web.presenter import WebPresenter
from ollim_bot.surfaces.web.read_mark import ReadMark
from ollim_bot.surfaces.web.refusals import RequestRefused
from ollim_bot.surfaces.web.rendered_messages import RenderedMessages

_GOODBYE_SECONDS = 1.0


_NEWEST = 60
_LARGEST_CHANGE = 2**53


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
        await self._socket.close(code=WSCloseCode.GOING_AWAY)

    def hang_up(self) -> None:
        if self._wire is not None:
            self._wire.abort()


class Tabs:
    def __init__(self, limits: WebLimits) -> None:
        self._limits = limits
        self._tabs: set[Tab] = set()

    def __len__(self) -> int:
        return len(self._tabs)

    def check_room(self) -> None:
        if len(self._tabs) >= self._limits.tabs:
            raise RequestRefused(503, texts.TOO_MANY_TABS)

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
            async with asyncio.timeout(_GOODBYE_SECONDS):
                closing = (tab.close() for tab in tuple(self._tabs))
                await asyncio.gather(*closing, return_exceptions=True)


class TabSocket:
    def __init__(
        self,
        reception: ChatService,
        book: RenderedMessages,
        presenter: WebPresenter,
        read: ReadMark,
        today: TodayPanel,
        tabs: Tabs,
        limits: WebLimits,
        keys: BrowserKeys,
    ) -> None:
        self._reception = reception
        self._book = book
        self._presenter = presenter
        self._read = read
        self._today = today
        self._tabs = tabs
        self._limits = limits
        self._keys = keys

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self._tabs.check_room()
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
            await _serve(tab, socket)
        return socket

    async def _greet(self, tab: Tab, change: int | None, proof: str) -> None:
        """Send a returning tab what it has missed, any other one the newest messages.

        By `proof` the page recognises the bot.
        """
        # Read the number first: a change in between is then sent twice instead of being lost.
        last = await self._reception.last_change()
        missed = None if change is None else await self._missed(change)
        messages, has_more = (None, False) if missed is not None else await self._newest()
        today = await self._today.state()
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
                "panels": {TODAY: today},
            },
            known,
        )

    async def _missed(self, change: int) -> list[Json] | None:
        missed = await self._reception.changes_since(change, self._limits.missed_messages)
        return None if missed is None else await self._book.shown([each.message for each in missed])

    async def _newest(self) -> tuple[list[Json], bool]:
        messages = await self._reception.history(_NEWEST + 1)
        return await self._book.shown(messages[-_NEWEST:]), len(messages) > _NEWEST


async def _serve(tab: Tab, socket: web.WebSocketResponse) -> None:
    writing = asyncio.create_task(tab.write())
    try:
        async for _ in socket:
            pass  # the page sends nothing more; unknown frames are ignored
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


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
