"""The sockets of open tabs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from aiohttp import WSCloseCode, WSMsgType, web

from ollim_bot.chat import Reception
from ollim_bot.surfaces.web import texts
from ollim_bot.surfaces.web.access import BROWSER, PROTOCOL
from ollim_bot.surfaces.web.frames import Json, command_json, status_json
from ollim_bot.surfaces.web.keys import Keys
from ollim_bot.surfaces.web.limits import Limits
from ollim_bot.surfaces.web.message_book import MessageBook
from ollim_bot.surfaces.web.presenter import Presenter
from ollim_bot.surfaces.web.read_mark import ReadMark
from ollim_bot.surfaces.web.refusals import Refused

_GOODBYE_SECONDS = 1.0


class Tab:
    """Frames wait here until the tab reads them; one that does not read is hung up on."""

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
        # Until the greeting only messages count: it brings all the rest as it then stands.
        if not self._is_greeted and frame["type"] != "message":
            return
        try:
            self._waiting.put_nowait((frame, text))
        except asyncio.QueueFull:
            self.hang_up()

    def greet(self, hello: Json, known: Mapping[str, Json]) -> None:
        """First of all the greeting, then what came since and is not in it."""
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
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._tabs: set[Tab] = set()

    def __len__(self) -> int:
        return len(self._tabs)

    def check_room(self) -> None:
        if len(self._tabs) >= self._limits.tabs:
            raise Refused(503, texts.TOO_MANY_TABS)

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
        """To all tabs; returns at once."""
        if self._tabs:
            text = json.dumps(frame)
            for tab in tuple(self._tabs):
                tab.offer(frame, text)

    def browsers(self) -> set[str]:
        return {tab.browser for tab in self._tabs}

    def hang_up(self, browser: str | None) -> None:
        """On the tabs of that browser, or of all."""
        for tab in tuple(self._tabs):
            if browser in (None, tab.browser):
                tab.hang_up()

    async def close(self, _: web.Application | None = None) -> None:
        """Say goodbye, without waiting long for an answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                closing = (tab.close() for tab in tuple(self._tabs))
                await asyncio.gather(*closing, return_exceptions=True)


_NEWEST = 60
_LARGEST = 2**53


class Socket:
    def __init__(
        self,
        reception: Reception,
        book: MessageBook,
        presenter: Presenter,
        read: ReadMark,
        tabs: Tabs,
        limits: Limits,
        keys: Keys,
    ) -> None:
        self._reception = reception
        self._book = book
        self._presenter = presenter
        self._read = read
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
        """A tab that was there not long ago gets what it has missed, any other one the newest.

        `proof` is how the page knows that it is told this by the bot.
        """
        # Asked first: a change that comes in between is told again, and not lost.
        last = await self._reception.last_change()
        missed = None if change is None else await self._missed(change)
        messages, has_more = (None, False) if missed is not None else await self._newest()
        known = {str(each["id"]): each for each in messages or missed or ()}
        # From here on nothing is waited for, so that no frame can come in between.
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
            pass  # The page has nothing more to say here; unknown words are ignored.
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


def _hello(first: object) -> tuple[int | None, str]:
    """The newest change of the log that the tab has, and what it wants a proof for.

    Raises `ValueError` for anything but a greeting.
    """
    kind, text = getattr(first, "type", None), getattr(first, "data", None)
    hello = json.loads(text) if kind is WSMsgType.TEXT and isinstance(text, str) else None
    if not isinstance(hello, dict) or hello.get("type") != "hello":
        raise ValueError("not a greeting")
    change, nonce = hello.get("change"), hello.get("nonce")
    return (
        change if type(change) is int and 0 <= change <= _LARGEST else None,
        nonce if isinstance(nonce, str) else "",
    )
