"""The page as a surface: shows the conversation in all its tabs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ollim_bot.connections import Connections
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.events import AgentEvent
from ollim_bot.ports import ChatService, Clock, OpenAttachment, Status, TurnStart
from ollim_bot.settings import Secret
from ollim_bot.surfaces.web.access import AccessControl
from ollim_bot.surfaces.web.api import NAME, Api
from ollim_bot.surfaces.web.files import Uploads
from ollim_bot.surfaces.web.frames import status_json
from ollim_bot.surfaces.web.keys import BrowserKeys
from ollim_bot.surfaces.web.limits import WebLimits
from ollim_bot.surfaces.web.panels import TodayPanel
from ollim_bot.surfaces.web.presenter import WebPresenter
from ollim_bot.surfaces.web.read_mark import KeptMark, ReadMark
from ollim_bot.surfaces.web.rendered_messages import RenderedMessages
from ollim_bot.surfaces.web.secret import address
from ollim_bot.surfaces.web.server import page_app, serving
from ollim_bot.surfaces.web.socket import Tabs, TabSocket


@dataclass(frozen=True, slots=True)
class WebAddress:
    """Where the page is served; port 0 is any free one, and `hosts` are further names of it."""

    port: int
    hosts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class PageFiles:
    """`uploads` is a folder of its own, emptied at each start."""

    uploads: Path
    open_attachment: OpenAttachment


@dataclass(frozen=True, slots=True)
class Health:
    """What the page says to those who only ask whether the bot runs."""

    version: str
    heartbeat_age: Callable[[], float | None] = lambda: None

    def report(self) -> dict[str, object]:
        return {"status": "ok", "version": self.version, "heartbeat_age": self.heartbeat_age()}


class WebSurface:
    """A `ChatSurface`. No method waits for a tab."""

    name = NAME

    def __init__(
        self,
        *,
        at: WebAddress,
        keys: BrowserKeys,
        files: PageFiles,
        read_mark: KeptMark,
        clock: Clock,
        health: Health,
        limits: WebLimits | None = None,
    ) -> None:
        self._port = at.port
        self._keys = keys
        self._limits = limits = limits or WebLimits()
        self._connections = Connections(
            limits.connections, limits.strangers, limits.stranger_seconds
        )
        self._access = AccessControl(
            keys, at.hosts, limits, lambda request: self._connections.trust(request.transport)
        )
        self._open_attachment = files.open_attachment
        self._uploads = Uploads(files.uploads, self._limits)
        self._kept_mark = read_mark
        self._health = health
        self._clock = clock
        self._tabs = Tabs(self._limits)
        keys.ended = self._tabs.hang_up
        self._presenter = WebPresenter(clock, self._tabs.send)
        self._book: RenderedMessages | None = None
        self._in_order = asyncio.Lock()
        self._is_serving = asyncio.Event()

    @property
    def port(self) -> int:
        """The actual port, once it serves."""
        return self._port

    @property
    def tabs(self) -> int:
        """How many tabs are open."""
        return len(self._tabs)

    @property
    def connections(self) -> int:
        """How many connections are open, authenticated or not."""
        return len(self._connections)

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
        read = ReadMark(self._kept_mark, reception, self._tabs.send)
        await read.load()
        today = TodayPanel(reception, self._clock, self._tabs.send)
        api = Api(reception, book, read, today, self._uploads, self._open_attachment, self._limits)
        socket = TabSocket(
            reception, book, self._presenter, read, today, self._tabs, self._limits, self._keys
        )
        app = page_app(self._access, api, socket, self._limits, self._health.report)
        app.on_shutdown.append(self._tabs.close)
        await self._keys.open()
        async with serving(app, self._port, self._limits, self._connections) as self._port:
            self._book = book
            self._is_serving.set()
            watching = asyncio.create_task(today.watch())
            try:
                await self._keys.watch(self._tabs.browsers)
            finally:
                watching.cancel()
                self._is_serving.clear()
                self._book = None

    async def post(self, message: ChatMessage, change: int = 0) -> None:
        async with self._in_order:
            if self._book is not None:
                [shown] = await self._book.shown([message])
                self._tabs.send({"type": "message", "message": shown, "change": change})
            self._presenter.answered(message)

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        await self._presenter.present(start, events)

    async def changed(self, status: Status) -> None:
        self._tabs.send({"type": "status", "status": status_json(status)})
