"""Limits what the strangers of a server take: its connections, and the time of the loop.

A connection is a stranger's until a request on it is authenticated. Strangers are disconnected
after a short time. When there is no room for a new connection, the oldest one without a complete
request head is closed: an honest caller sends its request at once. All come from this machine, or
through one tunnel, so the peer tells nothing.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

# Enough for connections and for all else that the process opens.
_DESCRIPTORS = 8192
# One server may use one in so many of the descriptors of the process.
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
        if transport is not None and (timer := self._take(transport)) is not None:
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
        if (timer := self._take(transport)) is not None:
            timer.cancel()

    def _take(self, stranger: asyncio.BaseTransport) -> asyncio.TimerHandle | None:
        return self._silent.pop(stranger, None) or self._asking.pop(stranger, None)

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
