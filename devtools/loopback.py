"""Serves an application on a port of loopback, as the local Discord and Google do."""

from __future__ import annotations

import socket

from aiohttp import web

_HOST = "127.0.0.1"


class LoopbackServer:
    """Holds its port from `start` to `close`; accepts connections while it is `open`."""

    def __init__(self, app: web.Application, port: int = 0) -> None:
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        self._wanted_port = port
        self._kept: socket.socket | None = None
        self._site: web.SockSite | None = None

    @property
    def url(self) -> str:
        return f"http://{_HOST}:{self._port}"

    async def start(self) -> None:
        await self._runner.setup()
        self._kept = _bound(self._wanted_port)
        await self.open()

    async def open(self) -> None:
        if self._site is None:
            self._site = web.SockSite(self._runner, _bound(self._port))
            await self._site.start()

    async def shut(self) -> None:
        """Break all connections and accept no new ones."""
        if self._site is not None:
            await self._site.stop()
            self._site = None
        server = self._runner.server
        for connection in list(server.connections if server else []):
            if connection.transport is not None:
                connection.transport.abort()

    async def close(self) -> None:
        await self.shut()
        await self._runner.cleanup()
        if self._kept is not None:
            self._kept.close()

    @property
    def _port(self) -> int:
        assert self._kept is not None, "It is not open."
        number: int = self._kept.getsockname()[1]
        return number


def _bound(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((_HOST, port))
    return bound
