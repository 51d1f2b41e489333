"""Limits what the strangers of a server take: its connections, and the time of the loop.

A connection is a stranger's until a request on it is authenticated. Strangers are disconnected
after a short time. When there is no room for a new connection, the oldest one without a complete
request head is closed: an honest caller sends its request at once. All come from this machine, or
through one tunnel, so the peer tells nothing."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import SERVER_SOFTWARE, RawRequestMessage, StreamWriter
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader
from multidict import CIMultiDict

from ollim_bot.kernel.base.errors import OllimError

# Enough for connections and for all else that the process opens.
_DESCRIPTORS = 8192
# One server may use a fourth of the descriptors of the process.
_SHARE = 4
# In bytes. What is read in one turn of the loop is parsed in that turn too, and a stranger can make
# each byte costly: with chunks of one byte, say. A body of known length is not parsed.
_STRANGERS_TURN, _LONGEST_TURN = 1024, 64 * 1024


def allow_many_descriptors() -> None:
    """Raise the descriptor limit of this process as far as the system allows and it can use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@dataclass
class Connections:
    """At most `most` connections, of which `most_strangers` have a request that is not trusted yet.

    A stranger is disconnected after `stranger_seconds`.
    """

    most: int
    most_strangers: int
    stranger_seconds: float
    # In order of arrival, with the timers that disconnect them.
    _silent: dict[asyncio.BaseTransport, asyncio.TimerHandle] = field(default_factory=dict)
    _asking: dict[asyncio.BaseTransport, asyncio.TimerHandle] = field(default_factory=dict)
    _trusted: set[asyncio.BaseTransport] = field(default_factory=set)
    # Shared: what is read into it is passed on before the next one reads.
    buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(_LONGEST_TURN)))

    def __post_init__(self) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            self.most = max(1, min(self.most, soft // _SHARE))
        self.most_strangers = max(1, min(self.most_strangers, self.most // 2))

    def __len__(self) -> int:
        return len(self._silent) + len(self._asking) + len(self._trusted)

    def guarded(self, make: Callable[[], asyncio.Protocol]) -> Callable[[], _Guarded]:
        """A factory of the same protocols, which refuses connections beyond the limits."""
        return lambda: _Guarded(make(), self)

    def trust(self, transport: asyncio.BaseTransport | None) -> None:
        """Keep the connection: an authenticated request came over it."""
        if transport is None:
            return
        timer = self._silent.pop(transport, None) or self._asking.pop(transport, None)
        if timer is not None:
            timer.cancel()
            self._trusted.add(transport)

    def is_trusted(self, transport: asyncio.BaseTransport) -> bool:
        return transport in self._trusted

    def add(self, transport: asyncio.BaseTransport) -> bool:
        """False if there is no room: all other connections are trusted."""
        if len(self) >= self.most:
            if len(self._trusted) >= self.most:
                return False
            self._hang_up(next(iter(self._silent or self._asking)))
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self.stranger_seconds, self._hang_up, transport)
        self._silent[transport] = timer
        return True

    def note_head(self, transport: asyncio.BaseTransport | None, body_left: int) -> None:
        """The head of a request came over the connection: others are closed before it.

        `body_left` is how many bytes of the body are still to come, as far as that is known.
        """
        if transport is None:
            return
        guarded = cast(_Guarded, cast(asyncio.Transport, transport).get_protocol())
        guarded.body_left = body_left
        if (timer := self._silent.pop(transport, None)) is None:
            return
        if len(self._asking) >= self.most_strangers:
            self._hang_up(next(iter(self._asking)))
        self._asking[transport] = timer

    def remove(self, transport: asyncio.BaseTransport) -> None:
        self._trusted.discard(transport)
        timer = self._silent.pop(transport, None) or self._asking.pop(transport, None)
        if timer is not None:
            timer.cancel()

    def _hang_up(self, transport: asyncio.BaseTransport) -> None:
        self.remove(transport)
        cast(asyncio.Transport, transport).abort()


class _Guarded(asyncio.BufferedProtocol):
    """Passes everything on to `inner`, a little at a time, if there is room for the connection."""

    def __init__(self, inner: asyncio.Protocol, connections: Connections) -> None:
        self._inner = inner
        self._connections = connections
        self._transport: asyncio.BaseTransport | None = None
        self.body_left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._connections.add(transport):
            self._transport = transport
            self._inner.connection_made(transport)
        else:
            cast(asyncio.Transport, transport).abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._connections.remove(self._transport)
            self._inner.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        size = max(_STRANGERS_TURN, min(self.body_left, _LONGEST_TURN))
        if self._transport is not None and self._connections.is_trusted(self._transport):
            size = _LONGEST_TURN
        return self._connections.buffer[:size]

    def buffer_updated(self, nbytes: int) -> None:
        if self._transport is not None:
            self.body_left -= nbytes
            self._inner.data_received(bytes(self._connections.buffer[:nbytes]))

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._transport is not None else None

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


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
            length = message.headers.get(hdrs.CONTENT_LENGTH)
            body_left = 0 if length is None else int(length) - payload.total_bytes
            self._connections.note_head(protocol.transport, body_left)
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
