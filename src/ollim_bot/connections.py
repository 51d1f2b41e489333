"""Limits the connections of a server, so that strangers cannot take all descriptors.

A connection is a stranger's until a request on it is authenticated. Strangers are few and are
disconnected after a short time. When they are too many, the oldest one that has sent nothing is
closed for the newest, so that the owner can always connect.
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


def allow_many_descriptors() -> None:
    """Raise the descriptor limit of this process as far as the system allows and it can use."""
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
    """At most `most` connections, and `most_strangers` untrusted ones from one peer.

    A stranger is disconnected after `stranger_seconds`.
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
        """A factory of the same protocols, which refuses connections beyond the limits."""
        return lambda: _Guarded(make(), self)

    def trust(self, transport: asyncio.BaseTransport | None) -> None:
        """Keep the connection: an authenticated request came over it."""
        held = None if transport is None else self._held.get(transport)
        if held is not None and not held.is_trusted:
            held.is_trusted = True
            _cancel(held)

    def add(self, transport: asyncio.Transport) -> bool:
        """False if there is no room: all other connections are trusted."""
        peer = str((transport.get_extra_info("peername") or ("",))[0])
        strangers = [each for each in self._held.values() if not each.is_trusted]
        of_peer = [each for each in strangers if each.peer == peer]
        if len(of_peer) >= self.most_strangers:
            self._hang_up(_first_to_close(of_peer))
        elif len(self._held) >= self.most:
            if not strangers:
                return False
            self._hang_up(_first_to_close(strangers))
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


def _first_to_close(strangers: list[_Held]) -> _Held:
    """The oldest stranger that has sent nothing, else the oldest. They are in order of arrival."""
    return next((each for each in strangers if not each.has_spoken), strangers[0])


def _cancel(held: _Held) -> None:
    if held.ending is not None:
        held.ending.cancel()
        held.ending = None


class _Guarded(asyncio.Protocol):
    """Passes everything on to `inner` if there is room for the connection."""

    def __init__(self, inner: asyncio.Protocol, connections: Connections) -> None:
        self._inner = inner
        self._connections = connections
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        tcp = cast(asyncio.Transport, transport)
        if self._connections.add(tcp):
            self._transport = tcp
            self._inner.connection_made(transport)
        else:
            tcp.abort()

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
