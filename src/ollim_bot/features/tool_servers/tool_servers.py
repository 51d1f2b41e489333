"""Holds one connection for each approved tool server, and offers the approved tools.

What the owner has to know or to decide is written into the record; the conversation tells it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Protocol, TypeVar

from ollim_bot.kernel.base.clock import Backoff, Clock, wait_until_set
from ollim_bot.kernel.base.errors import ToolServerFailed
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.prompts.prompt_context import fenced
from ollim_bot.kernel.store.server_file import ServerFile, read_servers
from ollim_bot.kernel.store.standby_loader import load_standby
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.upkeep.findings import (
    Check,
    DoctorInput,
    Found,
    failed,
    open_to_others,
    passed,
    warned,
)
from ollim_bot.kernel.values.permissions import Pattern
from ollim_bot.kernel.values.ports import Tool, ToolAnswer
from ollim_bot.kernel.values.taint import Untrusted
from ollim_bot.kernel.values.tool_servers import (
    SERVER_RECORD,
    NamedPlaces,
    ServerSpec,
    ServerState,
    ToolDefinition,
    ToolServerRecord,
    in_words,
)

# Seconds between two looks at the file.
_LOOK = 10.0
# Seconds before a server that failed is started again: doubled each time, up to the longest.
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 600.0
# A server that works for so many seconds has recovered.
_RECOVERED = 60.0
# Seconds before the tools are listed again after a change: doubled each time, as above.
_BETWEEN_LISTINGS = 1.0

T = TypeVar("T")


class HeldServer(Protocol):
    """A server that answers. `tools` are the definitions as the server last named them."""

    tools: tuple[ToolDefinition, ...]

    async def list_tools(self) -> None:
        """Ask for the tools again. Raises `ToolServerFailed`."""

    async def until_changed(self) -> bool:
        """Wait until the tools may have changed; False when the connection has ended.

        Raises `ToolServerFailed` if it was ended for a reason.
        """

    async def call(self, name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        """The result as text of a limited length. Raises `ToolServerFailed` if none comes."""


# Starts or reaches a server; raises `ToolServerFailed`.
OpenServer = Callable[[ServerSpec], AbstractAsyncContextManager[HeldServer]]

_logger = logging.getLogger(__name__)


def opened_in(paths: DataPaths) -> OpenServer:
    """Opens servers whose programs run in folders of their own below `paths`."""

    def opened(spec: ServerSpec) -> AbstractAsyncContextManager[HeldServer]:
        # Its libraries are those of the SDK, which is loaded by then.
        from ollim_bot.features.tool_servers.server_connection import open_connection

        return open_connection(spec, paths, os.environ)

    return opened


class ToolServers:
    """The tools stay the same while a server is down: a call then says so.

    No turn waits for a server. A server that fails is started again, later each time. Where
    machines share the rows, each starts what was approved there.
    """

    def __init__(
        self, store: Store, file: ServerFile, clock: Clock, open_server: OpenServer
    ) -> None:
        self._store = store
        self._file = file
        self._clock = clock
        self._open = open_server
        self._record = ToolServerRecord()
        self._specs: Mapping[str, ServerSpec] = {}
        self._live: dict[str, HeldServer] = {}
        self._held: dict[str, tuple[ServerSpec, asyncio.Task[None]]] = {}
        self._wanted = asyncio.Event()

    def tools(self) -> Mapping[str, Sequence[Tool]]:
        """The approved tools of each server. A change of the file is noticed soon after this."""
        if self._file.has_changed:
            self._wanted.set()
        return {
            name: [self._tool(name, each) for each in state.offered]
            for name, state in sorted(self._record.servers.items())
            if state.offered
        }

    def patterns(self) -> Sequence[Pattern]:
        """What the owner's approval lets the conversation call. Callable from any thread."""
        return [Pattern(name) for name in self._record.patterns()]

    def looks(self, full_name: str) -> bool:
        """Whether a session that has read others' words may call it unasked.

        Callable from any thread.
        """
        return self._record.looks(full_name)

    @property
    def places(self) -> NamedPlaces:
        """What the file names in the data directory. Callable from any thread."""
        return self._file.places

    async def load(self) -> None:
        """Read the record and the file, so that the first turn has the tools already."""
        await self._refresh()

    async def run(self) -> None:
        """Hold the connections until cancelled; every program has ended when this returns."""
        self._wanted.set()
        try:
            with self._store.changes(SERVER_RECORD, event=self._wanted):
                while True:
                    while not self._wanted.is_set() and not self._file.has_changed:
                        await wait_until_set(self._wanted, self._clock, _LOOK)
                    self._wanted.clear()
                    await self._refresh()
                    await self._hold_approved()
        finally:
            await self._release(list(self._held))

    async def _refresh(self) -> None:
        specs = await asyncio.to_thread(self._file.read)
        record = await self._store.read(lambda tx: tx.tool_servers.get())

        def written(known: ToolServerRecord) -> ToolServerRecord:
            return known.on(self._store.sharing.machine).written(specs)

        if written(record) != record:
            noting = self._store.transact(lambda tx: tx.tool_servers.change(written))
            noted = await unless_refused("The tool servers could not be noted", noting)
            record = noted or written(record)
        self._specs, self._record = specs, record

    async def _hold_approved(self) -> None:
        wanted = {
            name: spec
            for name, spec in self._specs.items()
            if (state := self._record.of(name)).may_start and _is_about(state, spec)
        }
        await self._release(
            [name for name, (spec, _) in self._held.items() if wanted.get(name) != spec]
        )
        for name, spec in wanted.items():
            if name not in self._held:
                self._held[name] = spec, asyncio.create_task(self._hold(spec))

    async def _release(self, names: Sequence[str]) -> None:
        tasks = [self._held.pop(name)[1] for name in names]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _hold(self, spec: ServerSpec) -> None:
        async for _ in Backoff(self._clock, _FIRST_PAUSE, _LONGEST_PAUSE, _RECOVERED):
            try:
                await self._hold_once(spec)
            except ToolServerFailed as failed:
                _logger.warning("The tool server %s %s", spec.name, failed)
                await self._note(spec, ServerState.failed, str(failed))

    async def _hold_once(self, spec: ServerSpec) -> None:
        """Raises `ToolServerFailed` when the server does not start, or works no more."""
        async with self._open(spec) as connection:
            recovery = asyncio.create_task(self._recover(spec))
            try:
                self._live[spec.name] = connection
                await self._note(spec, ServerState.listed, connection.tools)
                pause, listed = _BETWEEN_LISTINGS, self._clock.monotonic()
                while await connection.until_changed():
                    if self._clock.monotonic() - listed >= _RECOVERED + pause:
                        pause = _BETWEEN_LISTINGS
                    await self._clock.sleep(pause)
                    await connection.list_tools()
                    await self._note(spec, ServerState.listed, connection.tools)
                    pause, listed = min(2 * pause, _LONGEST_PAUSE), self._clock.monotonic()
            finally:
                recovery.cancel()
                self._live.pop(spec.name, None)
        raise ToolServerFailed("has stopped.")

    async def _recover(self, spec: ServerSpec) -> None:
        """Forget the trouble once the server has worked for a while, not at each restart."""
        await self._clock.sleep(_RECOVERED)
        await self._note(spec, ServerState.failed, "")

    async def _note(
        self, spec: ServerSpec, step: Callable[[ServerState, T], ServerState], news: T
    ) -> None:
        """Change the state in the record, unless another entry has taken the place of `spec`."""

        def change(record: ToolServerRecord) -> ToolServerRecord:
            state = record.of(spec.name)
            if not _is_about(state, spec):
                return record
            return record.holding(spec.name, step(state, news))

        noting = self._store.transact(lambda tx: tx.tool_servers.change(change))
        noted = await unless_refused(f"The tool server {spec.name} could not be noted", noting)
        self._record = noted or change(self._record)

    def _tool(self, server: str, definition: ToolDefinition) -> Tool:
        return Tool(
            definition.name,
            definition.description,
            json.loads(definition.schema),
            partial(self._call, server, definition),
        )

    async def _call(
        self, server: str, definition: ToolDefinition, arguments: Mapping[str, object]
    ) -> ToolAnswer:
        connection = self._live.get(server)
        if connection is None:
            return _refused(server, "does not work now")
        if not any(definition.covers(each) for each in connection.tools):
            return _refused(server, f"has no tool {definition.name} as the owner approved it")
        try:
            answer = await connection.call(definition.name, arguments)
        except ToolServerFailed as failed:
            return _refused(server, str(failed).rstrip("."))
        source = Untrusted(f"result of the tool server {server}", f"what {server} answered")
        return ToolAnswer(fenced(answer.text, source), is_error=answer.is_error)


def _is_about(state: ServerState, spec: ServerSpec) -> bool:
    return (state.present, state.script) == (spec.pin, spec.script)


def _refused(server: str, why: str) -> ToolAnswer:
    return ToolAnswer(f"The tool server {server} {why}. Go on without it.", is_error=True)


_MEND_SERVERS = "Mend mcp.json; `ollim-bot mcp list` shows whether it is right."


def check_tool_servers(given: DoctorInput) -> Found:
    paths = given.data.paths
    reading = read_servers(paths)
    yield from map(failed, reading.problems)
    yield from open_to_others(paths.mcp, "others may read mcp.json")
    record = given.read(lambda tx: tx.tool_servers.get())
    machine = load_standby("machines").machine_id(paths) if given.is_shared else ""
    known = (record or ToolServerRecord()).on(machine).written(reading.specs)
    named = {name: state for name, state in known.servers.items() if state.present}
    for name, state in sorted(named.items()):
        if state.trouble:
            trouble = f"{name} {state.trouble.rstrip('.')}"
            yield warned(trouble, f"Run `ollim-bot mcp test {name}`.")
        elif state.question:
            step = f"Run `ollim-bot mcp approve {name}`, or `ollim-bot mcp remove {name}`."
            yield warned(f"{name}: {in_words(state)}", step)
    if not reading.problems:
        tools = sum(len(state.offered) for state in named.values())
        some = f"{counted(len(named), 'server')}, {counted(tools, 'approved tool')}"
        yield passed(some if named else "none")


CHECKS = (Check("tool servers", check_tool_servers, _MEND_SERVERS, place=160),)
