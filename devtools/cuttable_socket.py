"""A socket in front of a server's own one, which can be cut or held as a network is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Self

_BLOCK = 1 << 16


class CuttableSocket:
    """Passes bytes between the socket at `path` and the one at `server`, in both directions."""

    def __init__(self, path: Path, server: Path) -> None:
        self.path = path
        self._server = server
        self._listening: asyncio.Server | None = None
        self._lines: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._is_cut = False

    async def __aenter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._listening = await asyncio.start_unix_server(self._accept, self.path)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listening is not None
        self._listening.close()
        self.cut()
        self._flows.set()

    def cut(self) -> None:
        """Break all connections, and each new one at once."""
        self._is_cut = True
        for line in list(self._lines):
            line.transport.abort()

    def hold(self) -> None:
        """Pass nothing on, and break nothing: the other side does not answer."""
        self._flows.clear()

    def mend(self) -> None:
        self._is_cut = False
        self._flows.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._lines.add(writer)
        try:
            if self._is_cut:
                return
            answers, asked = await asyncio.open_unix_connection(self._server)
            self._lines.add(asked)
            try:
                await asyncio.wait(
                    [
                        asyncio.ensure_future(self._pass_on(reader, asked)),
                        asyncio.ensure_future(self._pass_on(answers, writer)),
                    ],
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                self._lines.discard(asked)
                asked.transport.abort()
        except OSError:
            return  # the server is gone, and so is this connection
        finally:
            self._lines.discard(writer)
            writer.transport.abort()

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while block := await source.read(_BLOCK):
                await self._flows.wait()
                target.write(block)
                await target.drain()
        except OSError:
            return
