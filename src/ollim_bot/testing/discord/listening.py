"""A port on loopback that is kept while nobody listens on it, so that an outage can end."""

from __future__ import annotations

import socket

from aiohttp import web

HOST = "127.0.0.1"


class Listening:
    """The port is this one's until `close`; it takes connections while it is `open`."""

    def __init__(self, runner: web.AppRunner, port: int) -> None:
        self._runner = runner
        self._kept = _bound(port)
        self._site: web.SockSite | None = None

    @property
    def port(self) -> int:
        number: int = self._kept.getsockname()[1]
        return number

    async def open(self) -> None:
        if self._site is None:
            self._site = web.SockSite(self._runner, _bound(self.port))
            await self._site.start()

    async def shut(self) -> None:
        """Connections that are there break, and no other is taken."""
        if self._site is not None:
            await self._site.stop()
            self._site = None
        server = self._runner.server
        for connection in list(server.connections if server else []):
            if connection.transport is not None:
                connection.transport.abort()

    def close(self) -> None:
        self._kept.close()


def _bound(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((HOST, port))
    return bound
