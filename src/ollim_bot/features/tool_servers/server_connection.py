"""One connection to a tool server, by the Model Context Protocol.

All that a server sends is looked at before any library does. The sizes are looked at first. A long
message is reduced in a process of its own, so that nothing a server sends holds up the bot; a
server that sends too much is given up.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from jsonschema import Draft202012Validator, SchemaError
from mcp import Client, MCPError
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import (
    CONNECTION_CLOSED,
    Implementation,
    TextContent,
    ToolAnnotations,
    jsonrpc_message_adapter,
)
from mcp.types import Tool as McpTool

from ollim_bot import __version__
from ollim_bot.kernel.base.environment import child_environment
from ollim_bot.kernel.base.errors import ToolServerFailed
from ollim_bot.kernel.base.logs import learn_secrets
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.text import one_line
from ollim_bot.kernel.engine import die_with_parent
from ollim_bot.kernel.store.server_file import hash_scripts, whole_command, whole_environment
from ollim_bot.kernel.values import server_messages
from ollim_bot.kernel.values.ports import ToolAnswer
from ollim_bot.kernel.values.server_messages import (
    LEFT_OUT,
    LONGEST_LISTING,
    MOST_TOOLS,
    reduce_message,
)
from ollim_bot.kernel.values.tool_servers import (
    HIDDEN,
    ServerSpec,
    ToolDefinition,
    ToolHints,
    shown_command,
)

_BLOCK = 64 * 1024
_OWN_FOLDER = 0o700
# Seconds between two blocks of output that nobody reads.
_UNREAD_PAUSE = 0.05
_MOST_LOGGED = 100
_LONGEST_LOGGED = 300
_SHORTEST_SECRET = 6
# Seconds to exit after its input was closed, and again after it was told to.
_GRACE = 1.0

Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]
# A picture in a result may be as long as this.
LONGEST_MESSAGE = 8 * 1024 * 1024
# A longer message is not parsed by the bot itself. This one takes some milliseconds.
_LONGEST_PARSED_HERE = 32 * 1024
_LIST_CHANGED = "notifications/tools/list_changed"
_JSON, _EVENTS = "application/json", "text/event-stream"
_MOST_LINES = 1000
_BLANK_LINE = re.compile(rb"\r\n\r\n|\n\n|\r\r")


@asynccontextmanager
async def running_program(
    spec: ServerSpec,
    paths: DataPaths,
    environ: Mapping[str, str],
    screen: Screen,
    ended: Callable[[], None],
) -> AsyncIterator[Streams]:
    """The screened messages from and to the program of `spec`, which runs in a folder of its own.

    `ended` is called when no more messages come. Raises `ToolServerFailed` if it cannot be started.
    """
    process = await _started(spec, paths, environ)
    incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_read(process, incoming, screen, ended)),
        asyncio.create_task(_write(process, outgoing)),
        asyncio.create_task(_log(process, spec)),
    ]
    try:
        yield received, sent
    finally:
        try:
            await _stop(process)
        finally:
            # Also the programs that it has started, and when this is cancelled a second time.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            for stream in (incoming, received, sent, outgoing):
                stream.close()
            # At the end of its output a pipe is closed by itself.
            await asyncio.wait(tasks, timeout=_GRACE)
            for task in tasks:
                task.cancel()


async def _started(
    spec: ServerSpec, paths: DataPaths, environ: Mapping[str, str]
) -> asyncio.subprocess.Process:
    environment = {**child_environment(environ), **whole_environment(spec, paths.root)}
    command = await asyncio.to_thread(_command, spec, paths.root, environment)
    is_tied = sys.platform == "linux"
    if is_tied:
        command = [sys.executable, "-I", "-S", die_with_parent.__file__, *command]
    folder = paths.servers / spec.name
    try:
        folder.mkdir(mode=_OWN_FOLDER, parents=True, exist_ok=True)
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd=folder,
            # A program that is tied to the bot makes a group of its own by itself.
            start_new_session=not is_tied,
        )
    except OSError as refused:
        raise ToolServerFailed(f"could not be started: {refused.strerror}.") from refused


def _command(spec: ServerSpec, root: Path, environment: Mapping[str, str]) -> list[str]:
    """Raises `ToolServerFailed` if there is no such program, or another script than approved."""
    name, *arguments = whole_command(spec, root)
    program = shutil.which(name, path=environment.get("PATH", os.defpath))
    if program is None:
        told = shown_command(spec.command[:1])
        raise ToolServerFailed(f"could not be started: there is no program `{told}`.")
    if spec.script and hash_scripts(spec, root) != spec.script:
        raise ToolServerFailed("was not started: its script has changed.")
    return [program, *arguments]


async def _read(
    process: asyncio.subprocess.Process,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    screen: Screen,
    ended: Callable[[], None],
) -> None:
    assert process.stdout is not None
    try:
        async for line in _lines(process.stdout, screen):
            message = await screen.screened(line)
            if message is not None:
                with suppress(ValueError):  # not of the form that the protocol has
                    parsed = jsonrpc_message_adapter.validate_python(message, by_name=False)
                    await incoming.send(SessionMessage(parsed))
    except ToolServerFailed as failed:
        _logger.warning("A tool server %s", failed)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the connection has been given up
    finally:
        incoming.close()
        ended()
    await _drop(process.stdout)


async def _lines(output: asyncio.StreamReader, screen: Screen) -> AsyncIterator[bytes]:
    """The lines that are not empty. Raises `ToolServerFailed` if the output is too much."""
    rest = bytearray()
    while block := await output.read(_BLOCK):
        screen.count_bytes(len(block))
        *lines, last = block.split(b"\n")
        if lines:
            lines[0] = bytes(rest) + lines[0]
            rest.clear()
        rest += last
        if len(rest) > LONGEST_MESSAGE:
            screen.refuse("sends a line without an end.")
        filled = [line for line in lines if line.strip()]
        screen.count_odd(len(lines) - len(filled))
        for line in filled:
            yield line
        await asyncio.sleep(0)


async def _drop(output: asyncio.StreamReader) -> None:
    """Read to the end, slowly, so that the pipe is closed."""
    while await output.read(_BLOCK):  # noqa: ASYNC110 - the pause is for the processor
        await asyncio.sleep(_UNREAD_PAUSE)


async def _write(
    process: asyncio.subprocess.Process, outgoing: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    assert process.stdin is not None
    with suppress(OSError, anyio.ClosedResourceError):
        async for each in outgoing:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(f"{text}\n".encode())
            await process.stdin.drain()


async def _log(process: asyncio.subprocess.Process, spec: ServerSpec) -> None:
    """Log the first lines of the program's errors, and drop the rest so that it never blocks."""
    assert process.stderr is not None
    left, rest, secrets = _MOST_LOGGED, b"", spec.secrets
    while left and (block := await process.stderr.read(_BLOCK)):
        *lines, rest = (rest + block).split(b"\n")
        rest = rest[-_BLOCK:]
        for line in lines[:left]:
            text = line.decode(errors="replace")
            for secret in secrets:
                if len(secret) >= _SHORTEST_SECRET:
                    text = text.replace(secret, HIDDEN)
            _logger.info("%s: %s", spec.name, one_line(text, _LONGEST_LOGGED))
        left = max(0, left - len(lines))
    await _drop(process.stderr)


async def _stop(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await process.wait()
                return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
    with suppress(TimeoutError):
        async with asyncio.timeout(_GRACE):
            await process.wait()


_MOST_PAGES = 10
_TOO_MANY = "more tools before it than one server may have"
# Codes of the protocol for errors that a tool itself reports, such as wrong arguments.
_TOOL_ERRORS = frozenset({-32600, -32601, -32602, -32603})

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerTimeouts:
    """Seconds that a server may take to start, and to answer a call."""

    start: float = 5.0
    call: float = 60.0


class _News:
    """Wakes the holder of a connection: the tools may have changed, or the connection is over.

    `reason` says why the server was given up; it is empty otherwise.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._has_come = asyncio.Event()
        self._is_over = False

    def note_change(self) -> None:
        self._has_come.set()

    def note_end(self, reason: str = "") -> None:
        self.reason = self.reason or reason
        self._is_over = True
        self._has_come.set()

    async def wait(self) -> bool:
        """False when the connection is over. Raises `ToolServerFailed` if there is a reason."""
        await self._has_come.wait()
        self._has_come.clear()
        if self.reason:
            raise ToolServerFailed(self.reason)
        return not self._is_over


class ServerConnection:
    """A `HeldServer` by the protocol. `left_out` has the reason for each unusable tool."""

    def __init__(
        self, client: Client, news: _News, screen: Screen, timeouts: ServerTimeouts
    ) -> None:
        self.tools: tuple[ToolDefinition, ...] = ()
        self.left_out: Mapping[str, str] = {}
        self._client = client
        self._news = news
        self._screen = screen
        self._timeouts = timeouts

    async def list_tools(self) -> None:
        self.left_out = {}
        try:
            async with asyncio.timeout(self._timeouts.start):
                found = await self._listed()
                wrong = await asyncio.to_thread(_wrong_schemas, found, frozenset(self.tools))
        except TimeoutError:
            raise ToolServerFailed(_too_late("its tools", self._timeouts.start)) from None
        except Exception as error:  # many layers of libraries are below, and one server is at stake
            raise _failure(error) from error
        self.left_out = {**self.left_out, **wrong}
        for name, why in self.left_out.items():
            _logger.warning("The tool %s is left out: it has %s", one_line(name, 64), why)
        self.tools = tuple(each for each in found if each.name not in wrong)

    async def until_changed(self) -> bool:
        return await self._news.wait()

    async def call(self, name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        try:
            async with asyncio.timeout(self._timeouts.call):
                result = await self._client.call_tool(name, dict(arguments))
        except TimeoutError:
            raise ToolServerFailed(_too_late(name, self._timeouts.call)) from None
        except MCPError as error:
            if error.code in _TOOL_ERRORS:
                return ToolAnswer(error.message, is_error=True)
            raise self._end(error) from error
        except Exception as error:  # as above
            raise self._end(error) from error
        text = "\n".join(each.text for each in result.content if isinstance(each, TextContent))
        return ToolAnswer(text, is_error=bool(result.is_error))

    def _end(self, error: Exception) -> ToolServerFailed:
        self._news.note_end()
        return ToolServerFailed(self._news.reason) if self._news.reason else _failure(error)

    async def _listed(self) -> Sequence[ToolDefinition]:
        found: list[ToolDefinition] = []
        cursor, room = None, LONGEST_LISTING
        for _ in range(_MOST_PAGES):
            page = await self._client.list_tools(cursor=cursor, cache_mode="refresh")
            self.left_out = {**self.left_out, **self._screen.left_out}
            listed = [_definition(each) for each in page.tools]
            room -= sum(len(each.description) + len(each.schema) for each in listed)
            if room < 0 or len(found) + len(listed) > MOST_TOOLS:
                self.left_out = {**self.left_out, **{each.name: _TOO_MANY for each in listed}}
                break
            found += listed
            cursor = page.next_cursor
            if cursor is None:
                break
        return found


@asynccontextmanager
async def open_connection(
    spec: ServerSpec,
    paths: DataPaths,
    environ: Mapping[str, str],
    timeouts: ServerTimeouts | None = None,
) -> AsyncIterator[ServerConnection]:
    """Start or reach the server and list its tools. Raises `ToolServerFailed`.

    A program gets of `environ` only what every program needs.
    """
    timeouts = timeouts or ServerTimeouts()
    news = _News()
    screen = Screen(news.note_change, news.note_end)
    learn_secrets(spec.secrets)
    try:
        async with AsyncExitStack() as lifetime:
            async with asyncio.timeout(timeouts.start):
                transport: Transport
                if spec.url:
                    http = httpx2.AsyncClient(
                        headers={**spec.headers, "Accept-Encoding": "identity"},
                        timeout=httpx2.Timeout(timeouts.start, read=timeouts.call),
                        event_hooks={"response": [partial(screen_response, screen)]},
                    )
                    await lifetime.enter_async_context(http)
                    transport = streamable_http_client(
                        spec.url, http_client=http, max_sse_event_size=2 * LONGEST_MESSAGE
                    )
                else:
                    transport = running_program(spec, paths, environ, screen, news.note_end)
                info = Implementation(name="ollim-bot", version=__version__)
                client = await lifetime.enter_async_context(Client(transport, client_info=info))
                connection = ServerConnection(client, news, screen, timeouts)
                await connection.list_tools()
            yield connection
    except TimeoutError:
        raise ToolServerFailed(news.reason or _too_late("", timeouts.start)) from None
    except Exception as error:  # many layers of libraries are below, and one server is at stake
        raise (ToolServerFailed(news.reason) if news.reason else _failure(error)) from error


def _definition(tool: McpTool) -> ToolDefinition:
    schema = json.dumps(tool.input_schema, ensure_ascii=False, sort_keys=True)
    said = tool.annotations or ToolAnnotations()
    # A hint that is left out means the one that the protocol names, which allows less.
    hints = ToolHints(said.read_only_hint is True, said.open_world_hint is not False)
    return ToolDefinition(tool.name, tool.description or "", schema, hints)


def _wrong_schemas(
    found: Sequence[ToolDefinition], known: frozenset[ToolDefinition]
) -> Mapping[str, str]:
    """The reason for each tool, by its name, whose schema is wrong. `known` ones are right."""
    wrong = {}
    for each in found:
        try:
            if each not in known:
                Draft202012Validator.check_schema(json.loads(each.schema))
        except (ValueError, RecursionError, OverflowError, re.error, SchemaError):
            wrong[each.name] = "a schema that is wrong"
    return wrong


def _too_late(what: str, seconds: float) -> str:
    told = f" {what}" if what else ""
    return f"did not answer{told} within {seconds:g} s."


def _failure(error: BaseException) -> ToolServerFailed:
    """The innermost cause in words of ours, which the agent may be told; the log has the rest."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    _logger.info("A tool server failed", exc_info=error)
    if isinstance(error, ToolServerFailed):
        return error
    if isinstance(error, httpx2.TransportError):
        return ToolServerFailed("could not be reached.")
    if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
        return ToolServerFailed("has stopped.")
    if isinstance(error, MCPError):
        return ToolServerFailed("ended the connection with an error.")
    return ToolServerFailed(f"does not answer as a tool server should ({type(error).__name__}).")


class Allowance:
    """An amount that may be spent at once, and comes back little by little."""

    def __init__(self, at_once: float, each_second: float) -> None:
        self._left = self._most = at_once
        self._each_second = each_second
        self._seen = asyncio.get_running_loop().time()

    def spend(self, amount: float) -> bool:
        """Whether there was enough."""
        now = asyncio.get_running_loop().time()
        self._left = min(self._most, self._left + (now - self._seen) * self._each_second) - amount
        self._seen = now
        return self._left >= 0


class Screen:
    """Screens what one server sends. `note_change` is called when its tools may have changed.

    `give_up` is called with the reason, once, when the server has sent too much.
    `left_out` has the reason for each tool of the last listing that cannot be offered.
    """

    def __init__(self, note_change: Callable[[], None], give_up: Callable[[str], None]) -> None:
        self.left_out: Mapping[str, str] = {}
        self._note_change = note_change
        self._give_up = give_up
        self._odd = Allowance(100, 1)
        self._messages = Allowance(2000, 200)
        self._bytes = Allowance(4 * LONGEST_MESSAGE, 1024 * 1024)

    def count_bytes(self, number: int) -> None:
        """Raises `ToolServerFailed` if too many have come."""
        if not self._bytes.spend(number):
            self.refuse("sends more than can be read.")

    def count_odd(self, number: float = 1) -> None:
        """Count lines that are no messages. Raises `ToolServerFailed` if too many have come."""
        if not self._odd.spend(number):
            self.refuse("prints lines that are no messages.")

    def refuse(self, reason: str) -> None:
        """Give the server up. Raises `ToolServerFailed`."""
        self._give_up(reason)
        raise ToolServerFailed(reason)

    async def screened(self, raw: bytes) -> dict[str, Any] | None:
        """The reduced message for the library; None if it needs none.

        Raises `ToolServerFailed` if the server sends too much.
        """
        if not self._messages.spend(1):
            self.refuse("sends more messages than it was asked for.")
        if len(raw) > LONGEST_MESSAGE:
            self.refuse(f"sent a message of more than {LONGEST_MESSAGE // 1024**2} MB.")
        is_short = len(raw) <= _LONGEST_PARSED_HERE
        message = reduce_message(raw) if is_short else await self._reduced_elsewhere(raw)
        if message is None:
            self.count_odd()
            return None
        if "method" in message and "id" not in message:
            if message["method"] == _LIST_CHANGED:
                self._note_change()
            return None
        result = message.get("result", {})
        if LEFT_OUT in result:
            self.left_out = result.pop(LEFT_OUT)
        return message

    async def _reduced_elsewhere(self, raw: bytes) -> dict[str, Any] | None:
        # The process limits its own time and memory, however busy the machine is.
        command = (sys.executable, "-I", "-S", server_messages.__file__)
        pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=nowhere, env={}
        )
        try:
            reduced, _ = await process.communicate(raw)
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode != 0:
            self.refuse("sent a message that takes too long to read.")
        # Longer than one parsed here, but nothing in it is larger than a listing may be.
        found: dict[str, Any] | None = json.loads(reduced)
        return found


async def screen_response(screen: Screen, response: httpx2.Response) -> None:
    """Let the library read only screened messages from the response.

    Raises `ToolServerFailed` if the response is packed: what it unpacks to has any size.
    """
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        screen.refuse("packs its answers, which nobody asked for.")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    kind = response.headers.get("content-type", "").lower()
    response.stream = _ScreenedBody(response.stream, screen, kind)


class _ScreenedBody(httpx2.AsyncByteStream):
    """A body that the library may read whole. A body that is no message is empty."""

    def __init__(self, body: httpx2.AsyncByteStream, screen: Screen, kind: str) -> None:
        self._body = body
        self._screen = screen
        self._kind = kind

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._kind.startswith(_JSON):
            whole = bytearray()
            async for block in self._blocks():
                whole += block
                if len(whole) > LONGEST_MESSAGE:
                    break
            message = await self._screen.screened(bytes(whole))
            yield (b"" if message is None else json.dumps(message).encode())
        elif self._kind.startswith(_EVENTS):
            async for event in self._events():
                yield event

    async def aclose(self) -> None:
        await self._body.aclose()

    async def _blocks(self) -> AsyncIterator[bytes]:
        async for block in self._body:
            self._screen.count_bytes(len(block))
            yield block
            await asyncio.sleep(0)

    async def _events(self) -> AsyncIterator[bytes]:
        waiting, seen = bytearray(), 0
        async for block in self._blocks():
            waiting += block
            begin = 0
            while found := _BLANK_LINE.search(waiting, max(begin, seen)):
                yield await self._event(bytes(waiting[begin : found.start()]))
                begin = found.end()
            del waiting[:begin]
            if len(waiting) > LONGEST_MESSAGE:
                await self._screen.screened(bytes(waiting))
            # The blank line may have begun at the end of what was seen.
            seen = max(0, len(waiting) - 3)

    async def _event(self, event: bytes) -> bytes:
        """The event with its message screened; empty if it has none."""
        if event.count(b"\n") + event.count(b"\r") > _MOST_LINES:
            self._screen.refuse("sends events of too many lines.")
        lines = event.splitlines()
        data = [line.partition(b":")[2].strip() for line in lines if line.startswith(b"data:")]
        others = [line for line in lines if line.startswith((b"id:", b"event:"))]
        message = await self._screen.screened(b"\n".join(data)) if any(data) else None
        if message is not None:
            others.append(b"data: " + json.dumps(message).encode())
        elif not any(data):
            self._screen.count_odd(0.1)
        return b"\n".join([*others, b"", b""]) if others else b""
