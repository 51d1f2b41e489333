"""One connection to a tool server, by the Model Context Protocol."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
from jsonschema import Draft202012Validator, SchemaError
from mcp import Client, MCPError
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CONNECTION_CLOSED,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    Implementation,
    TextContent,
    TextResourceContents,
    ToolListChangedNotification,
)
from mcp.types import Tool as McpTool

from ollim_bot import __version__
from ollim_bot.domain.text import counted, one_line
from ollim_bot.domain.tool_servers import ServerSpec, ToolDefinition
from ollim_bot.errors import ToolServerFailed
from ollim_bot.ports import ToolAnswer
from ollim_bot.tool_servers.programs import running_program

_MOST_PAGES = 10
_MOST_TOOLS = 100
_LONGEST_RESULT = 20_000
# Codes of the protocol for errors that a tool itself reports, such as wrong arguments.
_TOOL_ERRORS = frozenset({-32600, -32601, -32602, -32603})

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerTimeouts:
    """Seconds that a server may take to start, and to answer a call."""

    start: float = 5.0
    call: float = 60.0


class _News:
    """Wakes the holder of a connection: the tools may have changed, or the connection is over."""

    def __init__(self) -> None:
        self._has_come = asyncio.Event()
        self._is_over = False

    def note_change(self) -> None:
        self._has_come.set()

    def note_end(self) -> None:
        self._is_over = True
        self._has_come.set()

    async def wait(self) -> bool:
        """False when the connection is over."""
        await self._has_come.wait()
        self._has_come.clear()
        return not self._is_over


class ServerConnection:
    """A `HeldServer` by the protocol."""

    def __init__(self, client: Client, news: _News, timeouts: ServerTimeouts) -> None:
        self.tools: tuple[ToolDefinition, ...] = ()
        self._client = client
        self._news = news
        self._timeouts = timeouts

    async def list_tools(self) -> None:
        try:
            async with asyncio.timeout(self._timeouts.start):
                found = await self._listed()
        except TimeoutError:
            raise ToolServerFailed(_too_late("its tools", self._timeouts.start)) from None
        except Exception as error:  # many layers of libraries are below, and one server is at stake
            raise _failure(error) from error
        self.tools = tuple(map(_definition, filter(_is_valid, found)))

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
                return ToolAnswer(_cut(error.message), is_error=True)
            self._news.note_end()
            raise _failure(error) from error
        except Exception as error:  # as above
            self._news.note_end()
            raise _failure(error) from error
        return ToolAnswer(_cut(_text(result)), is_error=bool(result.is_error))

    async def _listed(self) -> Sequence[McpTool]:
        found: list[McpTool] = []
        cursor = None
        for _ in range(_MOST_PAGES):
            page = await self._client.list_tools(cursor=cursor, cache_mode="refresh")
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        return found[:_MOST_TOOLS]


@asynccontextmanager
async def open_connection(
    spec: ServerSpec,
    folder: Path,
    environ: Mapping[str, str],
    timeouts: ServerTimeouts | None = None,
) -> AsyncIterator[ServerConnection]:
    """Start or reach the server and list its tools. Raises `ToolServerFailed`.

    A program runs in `folder`; of `environ` it gets only what every program needs.
    """
    timeouts = timeouts or ServerTimeouts()
    news = _News()

    async def note(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            news.note_change()

    try:
        async with AsyncExitStack() as lifetime:
            async with asyncio.timeout(timeouts.start):
                transport = await _transport(spec, folder, environ, news, timeouts, lifetime)
                info = Implementation(name="ollim-bot", version=__version__)
                client = await lifetime.enter_async_context(
                    Client(transport, message_handler=note, client_info=info)
                )
                connection = ServerConnection(client, news, timeouts)
                await connection.list_tools()
            yield connection
    except TimeoutError:
        raise ToolServerFailed(_too_late("", timeouts.start)) from None
    except ToolServerFailed:
        raise
    except Exception as error:  # many layers of libraries are below, and one server is at stake
        raise _failure(error) from error


async def _transport(
    spec: ServerSpec,
    folder: Path,
    environ: Mapping[str, str],
    news: _News,
    timeouts: ServerTimeouts,
    lifetime: AsyncExitStack,
) -> Transport:
    if not spec.url:
        return running_program(spec, folder, environ, news.note_end)
    limits = httpx2.Timeout(timeouts.start, read=timeouts.call)
    http = httpx2.AsyncClient(headers=dict(spec.headers), timeout=limits)
    await lifetime.enter_async_context(http)
    return streamable_http_client(spec.url, http_client=http)


def _definition(tool: McpTool) -> ToolDefinition:
    schema = json.dumps(tool.input_schema, ensure_ascii=False, sort_keys=True)
    return ToolDefinition(tool.name, tool.description or "", schema)


def _is_valid(tool: McpTool) -> bool:
    try:
        Draft202012Validator.check_schema(tool.input_schema)
    except SchemaError:
        _logger.warning("The tool %s is left out: its schema is wrong", tool.name[:64])
        return False
    return True


def _text(result: CallToolResult) -> str:
    parts = [_of_block(each) for each in result.content]
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return "\n".join(parts)


def _of_block(block: ContentBlock) -> str:
    match block:
        case TextContent(text=text):
            return text
        case EmbeddedResource(resource=TextResourceContents(text=text)):
            return text
        case _:
            return f"[{block.type} left out]"


def _cut(text: str) -> str:
    more = len(text) - _LONGEST_RESULT
    if more <= 0:
        return text
    return f"{text[:_LONGEST_RESULT]}\n[cut: {counted(more, 'further character')}]"


def _too_late(what: str, seconds: float) -> str:
    told = f" {what}" if what else ""
    return f"did not answer{told} within {seconds:g} s."


def _failure(error: BaseException) -> ToolServerFailed:
    """The innermost cause in words that a person understands, without its text: it may be long."""
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
        return ToolServerFailed(f"ended the connection ({one_line(error.message, 100)}).")
    return ToolServerFailed(f"does not answer as a tool server should ({type(error).__name__}).")
