"""The Claude engine: sessions, started when they are needed, and what is recorded of them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from ollim_bot.kernel.base.errors import EngineError, SessionLost
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.engine.transcripts import Transcripts
from ollim_bot.kernel.values.ports import SessionSpec, StoredSession, Toolset, Trace
from ollim_bot.kernel.values.provider import CLAUDE, Provider
from ollim_bot.kernel.values.usage import Usage

if TYPE_CHECKING:
    from ollim_bot.kernel.engine.engine_connection import Connection
    from ollim_bot.kernel.engine.session import ClaudeSession

Answered = Callable[[], Awaitable[None]]

_PRIVATE_PREFIX = "for-the-engine-"
_LONGEST_PRIVATE_SECONDS = 3600.0


class ClaudeEngine:
    """`environment` is that of the program; `cli` is the program to start.

    `provider` is the service that it then asks; costs and failures are reported for that one.
    `answered` is called after each completed answer. `folder` is private: prompts are files there
    for a moment, since others can read a command line. `zone` names the owner's time zone as of
    now, which a new process gets.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        folder: Path,
        *,
        cli: Path | None = None,
        provider: Provider = CLAUDE,
        answered: Answered | None = None,
        zone: Callable[[], str] | None = None,
    ) -> None:
        self._environment = environment
        self._folder = folder
        self._cli = cli
        self._provider = provider
        self._answered = answered
        self._zone = zone
        self._transcripts = Transcripts(environment)

    def load(self) -> type[ClaudeSession]:
        """Load the SDK. It takes as long as all the rest of a start, so a start does without."""
        from ollim_bot.kernel.engine.session import ClaudeSession

        return ClaudeSession

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ClaudeSession]:
        opened, refused = await asyncio.to_thread(self.load), dict[str, str]()
        start = partial(self._start, tools, refused)

        async def connect(spec: SessionSpec) -> Connection:
            """Resume the session with the id `begin` if it exists already."""
            if spec.resume is None and spec.begin is not None and await self.knows(spec.begin):
                try:
                    return await start(replace(spec, resume=spec.begin))
                except SessionLost:
                    # An empty record cannot be resumed, but the engine does not reuse its id.
                    return await start(replace(spec, begin=None))
            return await start(spec)

        session = opened(spec, connect, tools, refused, self._provider, self._answered)
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

    async def _start(
        self, tools: Toolset, refused: dict[str, str], spec: SessionSpec
    ) -> Connection:
        earlier, spent_before = spec.resume or spec.branch_of, Usage()
        if earlier is not None:
            await asyncio.to_thread(self._transcripts.repair, earlier)
            spent_before = await asyncio.to_thread(self._transcripts.spent, earlier)
        zone = {"TZ": self._zone()} if self._zone is not None else {}
        async with private_file(self._folder, spec.system_prompt) as prompt:
            variables = {**self._environment, **zone}
            given = spec, tools, refused, prompt, variables
            return await self.load().process(*given, self._cli, spent_before)


@asynccontextmanager
async def private_file(folder: Path, text: str) -> AsyncIterator[Path]:
    """A file that only we can read, removed when the context is left. Raises `EngineError`."""
    path = folder / f"{_PRIVATE_PREFIX}{uuid4().hex}"

    def write() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        longest_ago = time.time() - _LONGEST_PRIVATE_SECONDS
        # Remove files that a crash left behind.
        for stale in folder.glob(f"{_PRIVATE_PREFIX}*"):
            with suppress(OSError):
                if stale.stat().st_mtime < longest_ago:
                    stale.unlink()
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text.encode("utf-8", "replace"))

    try:
        await asyncio.to_thread(write)
    except OSError as refused:
        reason = f"{folder}: {refused.strerror}."
        raise EngineError(f"The engine could not be started: {reason}") from refused
    try:
        yield path
    finally:
        with suppress(OSError):
            await asyncio.to_thread(path.unlink)
