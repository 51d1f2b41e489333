"""Every open tab of the page: all are told the same, and none is waited for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from aiohttp import WSCloseCode, web

from ollim_bot.surfaces.web import texts
from ollim_bot.surfaces.web.frames import Json
from ollim_bot.surfaces.web.limits import Limits
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
