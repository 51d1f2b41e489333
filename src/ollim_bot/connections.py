"""How many connections a server holds, so that strangers cannot take all descriptors.

A connection is a stranger's until it is trusted. Strangers are held in small numbers and for a
short time; when there are too many, the oldest one that never said anything makes room for the
newest, so that the owner always finds a place.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

# Enough for everything else that the process does beside its connections.
_DESCRIPTORS = 8192
# Of all descriptors that the process may have, one in so many is for connections of one server.
_SHARE = 4


def allow_many_descriptors() -> None:
    """As many as the system lets this process have, up to what it could make use of."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@dataclass(eq=False, slots=True)
class _Held:
    transport: asyncio.Transport
    peer: str
    ending: asyncio.TimerHandle | None = None
    has_spoken: bool = False
    is_trusted: bool = False


@dataclass
class Connections:
    """At most `most` in all, and `most_strangers` that are not trusted from one peer.

    A stranger is hung up on after `stranger_seconds`, whatever it does.
    """

    most: int
    most_strangers: int
    stranger_seconds: float
    _held: dict[asyncio.BaseTransport, _Held] = field(default_factory=dict)

    def __post_init__(self) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            self.most = max(1, min(self.most, soft // _SHARE))
        self.most_strangers = max(1, min(self.most_strangers, self.most * 3 // 4))

    def __len__(self) -> int:
        return len(self._held)

    def guarded(self, make: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """A factory of the same protocols, for as many connections as there is room for."""
        return lambda: _Guarded(make(), self)

    def trust(self, transport: asyncio.BaseTransport | None) -> None:
        """Keep the connection: an authenticated request came over it."""
        held = None if transport is None else self._held.get(transport)
        if held is not None and not held.is_trusted:
            held.is_trusted = True
            _cancel(held)

    def add(self, transport: asyncio.Transport) -> bool:
        """False where there is no room, since all others are trusted."""
        peer = str((transport.get_extra_info("peername") or ("",))[0])
        strangers = [each for each in self._held.values() if not each.is_trusted]
        of_peer = [each for each in strangers if each.peer == peer]
        if len(of_peer) >= self.most_strangers:
            self._hang_up(_least(of_peer))
        elif len(self._held) >= self.most:
            if not strangers:
                return False
            self._hang_up(_least(strangers))
        held = _Held(transport, peer)
        loop = asyncio.get_running_loop()
        held.ending = loop.call_later(self.stranger_seconds, self._hang_up, held)
        self._held[transport] = held
        return True

    def spoke(self, transport: asyncio.BaseTransport) -> None:
        held = self._held.get(transport)
        if held is not None:
            held.has_spoken = True

    def remove(self, transport: asyncio.BaseTransport) -> None:
        held = self._held.pop(transport, None)
        if held is not None:
            _cancel(held)

    def _hang_up(self, held: _Held) -> None:
        self.remove(held.transport)
        held.transport.abort()


def _least(strangers: list[_Held]) -> _Held:
    """They are in the order in which they came."""
    return next((each for each in strangers if not each.has_spoken), strangers[0])


def _cancel(held: _Held) -> None:
    if held.ending is not None:
        held.ending.cancel()
        held.ending = None


class _Guarded(asyncio.Protocol):
    """Passes everything on, if there is room for the connection."""

    def __init__(self, inner: asyncio.Protocol, connections: Connections) -> None:
        self._inner = inner
        self._connections = connections
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        wire = cast(asyncio.Transport, transport)
        if self._connections.add(wire):
            self._transport = wire
            self._inner.connection_made(transport)
        else:
            wire.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._connections.remove(self._transport)
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._connections.spoke(self._transport)
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._transport is not None else None

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()
