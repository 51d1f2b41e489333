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
from ollim_bot.domain.provider import CLAUDE, Provider
from ollim_bot.domain.sessions import SessionId
from ollim_bot.engine.connection import Connection
from ollim_bot.engine.options import options_for
from ollim_bot.engine.session import Answered, ClaudeSession
from ollim_bot.engine.transcripts import Transcripts, private_file
from ollim_bot.errors import SessionLost


class ClaudeEngine:
    """`environment` is what the program gets on top of ours; `cli` is how it is started.

    `provider` is whom it asks then: what a turn costs and why it failed is said of that one.
    `answered` is called whenever it has answered.
    `folder` is private: prompts lie there for a moment, since others can read a command line.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        folder: Path,
        *,
        cli: Path | None = None,
        provider: Provider = CLAUDE,
        answered: Answered | None = None,
    ) -> None:
        self._environment = environment
        self._folder = folder
        self._cli = cli
        self._provider = provider
        self._answered = answered
        self._transcripts = Transcripts(ChainMap({**environment}, os.environ))

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ClaudeSession]:
        refused: dict[str, str] = {}
        start = partial(self._connect, tools, refused)
        session = ClaudeSession(spec, start, refused, self._provider, self._answered)
        try:
            await session.connect()
            yield session
        finally:
            await session.close()

    async def knows(self, session: SessionId) -> bool:
        return await asyncio.to_thread(self._transcripts.find, session) is not None

    async def trace(self, session: SessionId, prompt: str) -> Trace:
        return await asyncio.to_thread(self._transcripts.trace, session, prompt)

    async def sessions(self, working_directory: Path, limit: int) -> Sequence[StoredSession]:
        return await asyncio.to_thread(self._transcripts.sessions, working_directory, limit)

    async def _connect(
        self, tools: Toolset, refused: dict[str, str], spec: SessionSpec
    ) -> Connection:
        """Where a session with the id `begin` exists already, that one goes on."""
        start = partial(self._start, tools, refused)
        if spec.resume is None and spec.begin is not None and await self.knows(spec.begin):
            try:
                return await start(replace(spec, resume=spec.begin))
            except SessionLost:
                # Its record is empty: nothing to resume, and yet the engine does not reuse the id.
                return await start(replace(spec, begin=None))
        return await start(spec)

    async def _start(
        self, tools: Toolset, refused: dict[str, str], spec: SessionSpec
    ) -> Connection:
        earlier = spec.resume or spec.branch_of
        if earlier is not None:
            await asyncio.to_thread(self._transcripts.mend, earlier)
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
