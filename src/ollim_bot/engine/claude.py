"""The engine: Claude, through the SDK and its program."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from ollim_bot.agent import SessionSpec, Toolset
from ollim_bot.engine.connection import Connection
from ollim_bot.engine.options import options_for
from ollim_bot.engine.session import ClaudeSession


class ClaudeEngine:
    """`environment` is what the program gets on top of ours; `cli` is how it is started."""

    def __init__(self, environment: Mapping[str, str], *, cli: Path | None = None) -> None:
        self._environment = environment
        self._cli = cli

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ClaudeSession]:
        refused: dict[str, str] = {}
        session = ClaudeSession(spec, partial(self._connect, tools, refused), refused)
        try:
            await session.connect()
            yield session
        finally:
            await session.close()

    async def _connect(
        self, tools: Toolset, refused: dict[str, str], spec: SessionSpec
    ) -> Connection:
        options = options_for(
            spec, tools, environment=self._environment, refused=refused, cli=self._cli
        )
        return await Connection.open(options)
