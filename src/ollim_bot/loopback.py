"""Serves HTTP on loopback, to a limited number of connections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from ollim_bot.connections import Connections
from ollim_bot.errors import OllimError

HOST = "127.0.0.1"
_SHUTDOWN_SECONDS = 1.0
_logger = logging.getLogger(__name__)


@asynccontextmanager
async def serving(
    app: web.Application,
    port: int,
    connections: Connections,
    refusal: Callable[[OSError], str],
    *,
    idle_seconds: float,
    linger_seconds: float,
    unpacks: bool = True,
) -> AsyncIterator[int]:
    """Serve at this port or, for 0, at a free one; gives the port.

    An idle connection is kept for `idle_seconds`, and one whose request was not read to its end for
    `linger_seconds`. With `unpacks`, a compressed body is unpacked. Raises `OllimError` with the
    sentence that `refusal` gives if the port cannot be used.
    """
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_WireLog(_logger),
        keepalive_timeout=idle_seconds,
        lingering_time=linger_seconds,
        shutdown_timeout=_SHUTDOWN_SECONDS,
        auto_decompress=unpacks,
    )
    await runner.setup()
    try:
        try:
            await _Site(runner, port, connections).start()
        except OSError as refused:
            raise OllimError(refusal(refused)) from refused
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class _Site(web.BaseSite):
    """A `TCPSite` with a limit on its connections."""

    def __init__(self, runner: web.AppRunner, port: int, connections: Connections) -> None:
        super().__init__(runner)
        self._port = port
        self._connections = connections

    @property
    def name(self) -> str:
        return f"http://{HOST}:{self._port}"

    async def start(self) -> None:
        await super().start()
        server = self._runner.server
        assert server is not None
        self._server = await asyncio.get_running_loop().create_server(
            self._connections.guarded(server), HOST, self._port, backlog=self._backlog
        )


class _WireLog(logging.LoggerAdapter[logging.Logger]):
    """Drops errors about malformed HTTP: they quote the request, which may hold a secret."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if not isinstance(kwargs.get("exc_info"), HttpProcessingError):
            super().log(level, msg, *args, **kwargs)
