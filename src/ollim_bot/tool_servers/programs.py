"""Runs a tool server as a program: bounded, with a clean environment, and dead when the bot is."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from ollim_bot.domain.text import one_line
from ollim_bot.domain.tool_servers import ServerSpec
from ollim_bot.engine import die_with_parent
from ollim_bot.errors import ToolServerFailed

_INHERITED = ("PATH", "HOME", "LANG")
# One message of a server is one line. A longer one ends the server, before it takes all memory.
_LONGEST_LINE = 8 * 1024 * 1024
_BLOCK = 4096
_MOST_LOGGED = 100
_LONGEST_LOGGED = 300
_SHORTEST_SECRET = 6
# Seconds to exit after its input was closed, and again after it was told to.
_GRACE = 1.0

Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]

_logger = logging.getLogger(__name__)


@asynccontextmanager
async def running_program(
    spec: ServerSpec, folder: Path, environ: Mapping[str, str], ended: Callable[[], None]
) -> AsyncIterator[Streams]:
    """The messages from and to the program of `spec`, which runs in `folder`.

    `ended` is called when no more messages come. Raises `ToolServerFailed` if it cannot be started.
    """
    process = await _started(spec, folder, environ)
    incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_read(process, incoming, ended)),
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
    spec: ServerSpec, folder: Path, environ: Mapping[str, str]
) -> asyncio.subprocess.Process:
    environment = {name: environ[name] for name in _INHERITED if name in environ}
    environment.update(spec.environment)
    program = _found(spec.command[0], folder, environment.get("PATH", os.defpath))
    if program is None:
        raise ToolServerFailed(f"could not be started: there is no program `{spec.command[0]}`.")
    command = [program, *spec.command[1:]]
    is_tied = sys.platform == "linux"
    if is_tied:
        command = [sys.executable, "-I", "-S", die_with_parent.__file__, *command]
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd=folder,
            limit=_LONGEST_LINE,
            # A program that is tied to the bot makes a group of its own by itself.
            start_new_session=not is_tied,
        )
    except OSError as refused:
        raise ToolServerFailed(f"could not be started: {refused.strerror}.") from refused


def _found(name: str, folder: Path, path: str) -> str | None:
    return shutil.which(os.path.join(folder, name) if "/" in name else name, path=path)


async def _read(
    process: asyncio.subprocess.Process,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    ended: Callable[[], None],
) -> None:
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            with suppress(ValueError):  # a word that the program printed between the messages
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                await incoming.send(SessionMessage(message))
    except ValueError:
        _logger.warning("A tool server sent a line of more than %d bytes", _LONGEST_LINE)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the connection has been given up
    finally:
        incoming.close()
        ended()
    while await process.stdout.read(_BLOCK):
        pass


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
    left, rest = _MOST_LOGGED, b""
    while block := await process.stderr.read(_BLOCK):
        *lines, rest = (rest + block).split(b"\n")
        rest = rest[-_BLOCK:]
        for line in lines[:left]:
            _logger.info("%s: %s", spec.name, _without_secrets(line, spec))
        left = max(0, left - len(lines))


def _without_secrets(line: bytes, spec: ServerSpec) -> str:
    text = line.decode(errors="replace")
    for secret in spec.environment.values():
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "…")
    return one_line(text, _LONGEST_LOGGED)


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
