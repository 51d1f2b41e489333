"""A process of the engine that waits for its first session, and tools for whoever takes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

from ollim_bot.agent import Refusal, SessionSpec, Tool, ToolAnswer, ToolCall, Toolset
from ollim_bot.domain.sessions import SessionId
from ollim_bot.engine.connection import Connection
from ollim_bot.errors import EngineError

Result = TypeVar("Result")


class Handover:
    """Stands in for tools that are not known yet, but will look like these.

    A process calls them in the context of the moment when it was started; from `to` on they run in
    that of whoever handed them over.
    """

    def __init__(self, alike: Toolset) -> None:
        self._tools = alike
        self._context = copy_context()

    def to(self, tools: Toolset) -> None:
        self._tools = tools
        self._context = copy_context()

    def fits(self, tools: Toolset) -> bool:
        return _look(tools) == _look(self._tools)

    def toolset(self) -> Toolset:
        servers = {
            server: [replace(tool, run=partial(self._run, server, tool.name)) for tool in tools]
            for server, tools in self._tools.servers.items()
        }
        return Toolset(servers, self._tools.builtin, self._gate, self._may_end)

    async def _run(self, server: str, name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        tool = next(tool for tool in self._tools.servers[server] if tool.name == name)
        return await self._in_context(tool.run(arguments))

    async def _gate(self, call: ToolCall) -> Refusal | None:
        return await self._in_context(self._tools.gate(call))

    async def _may_end(self) -> str | None:
        return await self._in_context(self._tools.may_end())

    async def _in_context(self, work: Awaitable[Result]) -> Result:
        return await asyncio.create_task(_awaited(work), context=self._context)


async def _awaited(work: Awaitable[Result]) -> Result:
    return await work


def _look(tools: Toolset) -> tuple[object, ...]:
    """All that a process has been told of its tools when it is started."""

    def shown(tool: Tool) -> tuple[object, ...]:
        return tool.name, tool.description, tool.schema

    return tools.builtin, {name: list(map(shown, some)) for name, some in tools.servers.items()}


class Spare:
    """Fits one new session. `connect` starts the process, and begins at once."""

    def __init__(
        self,
        spec: SessionSpec,
        tools: Toolset,
        connect: Callable[[Toolset, dict[str, str], SessionSpec], Coroutine[Any, Any, Connection]],
    ) -> None:
        self.spec = replace(spec, begin=spec.begin or SessionId(str(uuid4())))
        self.refused: dict[str, str] = {}
        self._handover = Handover(tools)
        made = connect(self._handover.toolset(), self.refused, self.spec)
        self._connecting = asyncio.create_task(made)

    def fits(self, spec: SessionSpec, tools: Toolset) -> bool:
        wanted = replace(spec, begin=spec.begin or self.spec.begin)
        is_gone = self._connecting.done() and not self.is_ready
        return wanted == self.spec and self._handover.fits(tools) and not is_gone

    @property
    def is_ready(self) -> bool:
        connecting = self._connecting
        if not connecting.done() or connecting.cancelled() or connecting.exception() is not None:
            return False
        return connecting.result().is_alive

    async def taken(self, tools: Toolset) -> Connection | None:
        """None if it could not be started."""
        self._handover.to(tools)
        try:
            return await self._connecting
        except EngineError:
            return None

    async def close(self) -> None:
        self._connecting.cancel()
        await asyncio.wait({self._connecting})
        if not self._connecting.cancelled() and self._connecting.exception() is None:
            await self._connecting.result().close()
