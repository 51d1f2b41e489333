"""The engine: Claude, through the SDK and its program."""

from __future__ import annotations

import asyncio
import os
from collections import ChainMap
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from ollim_bot.agent import SessionSpec, StoredSession, Toolset, Trace
from ollim_bot.domain.sessions import SessionId
from ollim_bot.engine.connection import Connection
from ollim_bot.engine.options import options_for
from ollim_bot.engine.private_files import private_file
from ollim_bot.engine.session import ClaudeSession
from ollim_bot.engine.spare import Spare
from ollim_bot.engine.transcripts import Transcripts
from ollim_bot.errors import SessionLost

_CLOSE_LIMIT = 5.0


class ClaudeEngine:
    """`environment` is what the program gets on top of ours; `cli` is how it is started.

    `folder` is private: what others must not read on a command line lies there for a moment.
    """

    def __init__(
        self, environment: Mapping[str, str], folder: Path, *, cli: Path | None = None
    ) -> None:
        self._environment = environment
        self._folder = folder
        self._cli = cli
        self._transcripts = Transcripts(ChainMap({**environment}, os.environ))
        self._spare: Spare | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ClaudeSession]:
        refused: dict[str, str] = {}
        connection = None
        spare = self._taken(spec, tools)
        if spare is not None:
            spec, refused = spare.spec, spare.refused
            connection = await self._connected(spare, tools)
        session = ClaudeSession(spec, partial(self._connect, tools, refused), refused, connection)
        try:
            if connection is None:
                await session.connect()
            yield session
        finally:
            await session.close()

    def warm(self, spec: SessionSpec, tools: Toolset) -> None:
        """By a process that is started now: it is what takes longest when a session is opened."""
        if spec.resume is not None or (self._spare and self._spare.fits(spec, tools)):
            return
        before, self._spare = self._spare, Spare(spec, tools, self._connect)
        if before is not None:
            self._leave(before)

    @property
    def is_warm(self) -> bool:
        """Whether a process waits, and a session of the last hint would be there at once."""
        return self._spare is not None and self._spare.is_ready

    async def knows(self, session: SessionId) -> bool:
        return await asyncio.to_thread(self._transcripts.find, session) is not None

    async def trace(self, session: SessionId, prompt: str) -> Trace:
        return await asyncio.to_thread(self._transcripts.trace, session, prompt)

    async def sessions(self, working_directory: Path, limit: int) -> Sequence[StoredSession]:
        return await asyncio.to_thread(self._transcripts.sessions, working_directory, limit)

    async def close(self) -> None:
        """End what nobody has opened; sessions end when their contexts do.

        A process that hangs is left to be killed in a while; nobody has to wait for that.
        """
        spare, self._spare = self._spare, None
        if spare is not None:
            self._leave(spare)
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=_CLOSE_LIMIT)

    def _taken(self, spec: SessionSpec, tools: Toolset) -> Spare | None:
        spare = self._spare
        if spare is None or not spare.fits(spec, tools):
            return None
        self._spare = None
        return spare

    async def _connected(self, spare: Spare, tools: Toolset) -> Connection | None:
        try:
            return await spare.taken(tools)
        except BaseException:  # cancelled: nobody else knows of its process
            self._leave(spare)
            raise

    def _leave(self, spare: Spare) -> None:
        leaving = asyncio.create_task(spare.close())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    async def _connect(
        self, tools: Toolset, refused: dict[str, str], spec: SessionSpec
    ) -> Connection:
        """A name that a session of before has is not given twice: that session goes on."""
        start = partial(self._start, tools, refused)
        if spec.resume is None and spec.begin is not None and await self.knows(spec.begin):
            try:
                return await start(replace(spec, resume=spec.begin))
            except SessionLost:
                # Its record has no word in it, and still the engine will not give its name again.
                return await start(replace(spec, begin=None))
        return await start(spec)

    async def _start(
        self, tools: Toolset, refused: dict[str, str], spec: SessionSpec
    ) -> Connection:
        async with private_file(self._folder, spec.system_prompt) as prompt:
            options = options_for(
                spec,
                tools,
                prompt=prompt,
                environment=self._environment,
                refused=refused,
                cli=self._cli,
            )
            return await Connection.open(options)
