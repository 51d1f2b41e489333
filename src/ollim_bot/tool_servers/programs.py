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

from ollim_bot.domain.command_secrets import HIDDEN, shown_command
from ollim_bot.domain.text import one_line
from ollim_bot.domain.tool_servers import ServerSpec
from ollim_bot.engine import die_with_parent
from ollim_bot.environment import child_environment
from ollim_bot.errors import ToolServerFailed
from ollim_bot.paths import DataPaths
from ollim_bot.store.server_file import hash_scripts, whole_command, whole_environment
from ollim_bot.tool_servers.screening import LONGEST_MESSAGE, Screen

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

_logger = logging.getLogger(__name__)


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
