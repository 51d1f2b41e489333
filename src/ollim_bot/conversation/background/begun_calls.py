"""Calls of our tools go to their end even if the run does not, so that what they did is known."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from ollim_bot.agent import Tool, ToolAnswer, Toolset

_LONGEST = 5.0


class BegunCalls:
    def __init__(self) -> None:
        self._open: set[asyncio.Task[ToolAnswer]] = set()

    def of(self, tools: Toolset) -> Toolset:
        """The same tools, whose calls `ended` waits for."""
        servers = {
            name: [self._finishing(tool) for tool in each] for name, each in tools.servers.items()
        }
        return replace(tools, servers=servers)

    async def ended(self) -> None:
        """Those that take longer than a few seconds are cancelled."""
        if not self._open:
            return
        _, hanging = await asyncio.wait(self._open, timeout=_LONGEST)
        for task in hanging:
            task.cancel()

    def _finishing(self, tool: Tool) -> Tool:
        async def run(arguments: Mapping[str, object]) -> ToolAnswer:
            task = asyncio.ensure_future(_answer(tool, arguments))
            self._open.add(task)
            task.add_done_callback(self._open.discard)
            return await asyncio.shield(task)

        return replace(tool, run=run)


async def _answer(tool: Tool, arguments: Mapping[str, object]) -> ToolAnswer:
    return await tool.run(arguments)
