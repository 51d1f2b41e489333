"""Serves HTTP on loopback, to a limited number of connections."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import SERVER_SOFTWARE, RawRequestMessage, StreamWriter
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader
from multidict import CIMultiDict

from ollim_bot.connections import Connections
from ollim_bot.errors import OllimError

HOST = "127.0.0.1"
_SHUTDOWN_SECONDS = 1.0
# A head beyond this is refused while it is parsed; a line of it has 8 kB at most.
_MOST_HEADERS = 64
# A crowd waits in the kernel: to accept many connections in one turn would hold up all else.
_WAITING, _ACCEPTED_IN_A_TURN = 256, 16
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
) -> AsyncIterator[int]:
    """Serve at this port or, for 0, at a free one; gives the port.

    An idle connection is kept for `idle_seconds`, and one whose request was not read to its end for
    `linger_seconds`. A compressed body stays as it is. Raises `OllimError` with the sentence that
    `refusal` gives if the port cannot be used.
    """
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_WireLog(_logger),
        keepalive_timeout=idle_seconds,
        lingering_time=linger_seconds,
        shutdown_timeout=_SHUTDOWN_SECONDS,
        auto_decompress=False,
        max_headers=_MOST_HEADERS,
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
    """A `TCPSite` with a limit on its connections, whose requests take turns."""

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
        make, handle = server.request_factory, server.request_handler

        def make_request(
            message: RawRequestMessage,
            payload: StreamReader,
            protocol: web.RequestHandler,
            _: AbstractStreamWriter,
            task: asyncio.Task[None],
        ) -> web.BaseRequest:
            self._connections.note_head(protocol.transport, _body_left(message, payload))
            if message.url.absolute:
                # A host in the first line is not looked at: to decode one takes long, and may fail.
                message = message._replace(url=message.url.relative())
            writer = _NamelessWriter(protocol, asyncio.get_running_loop())
            return make(message, payload, protocol, writer, task)

        async def handle_request(request: web.BaseRequest) -> web.StreamResponse:
            # The requests that one connection sends in advance are not answered in a row.
            await asyncio.sleep(0)
            return await handle(request)

        server.request_factory, server.request_handler = make_request, handle_request
        listening = socket.create_server((HOST, self._port))
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._connections.guarded(server), sock=listening, backlog=_ACCEPTED_IN_A_TURN
            )
        except BaseException:
            listening.close()
            raise
        listening.listen(_WAITING)


def _body_left(message: RawRequestMessage, payload: StreamReader) -> int:
    """How many bytes are still to come of which it is known that they are a body."""
    length = message.headers.get(hdrs.CONTENT_LENGTH)
    return 0 if length is None else int(length) - payload.total_bytes


class _NamelessWriter(StreamWriter):
    """Does not tell strangers the versions of Python and aiohttp."""

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        if headers.get(hdrs.SERVER) == SERVER_SOFTWARE:
            del headers[hdrs.SERVER]
        await super().write_headers(status_line, headers)


class _WireLog(logging.LoggerAdapter[logging.Logger]):
    """Drops errors that a stranger makes at will, as long as a traceback each.

    Those about malformed HTTP also quote the request, which may hold a secret.
    """

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if not isinstance(kwargs.get("exc_info"), HttpProcessingError | ConnectionError):
            super().log(level, msg, *args, **kwargs)
