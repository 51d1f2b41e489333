"""Makes pictures fit the model, in a process of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ollim_bot.errors import WrongInput

LONGEST_EDGE = 1568
MOST_BYTES = 5 * 1024 * 1024
# Phones make up to 50 million pixels. A JPEG decoder can produce a smaller picture directly; the
# other decoders cannot.
MOST_PIXELS = {
    "image/jpeg": 50_000_000,
    "image/png": 25_000_000,
    "image/gif": 25_000_000,
    "image/webp": 25_000_000,
}

_PROGRAM = Path(__file__).with_name("decoding.py")
# The exit codes of that program, which cannot be imported without its decoders.
UNREADABLE = 3
TOO_MANY_PIXELS = 4
TOO_MUCH_MEMORY = 5
_LONGEST_HEAD = 100
# Ended by processor time, by elapsed time, or by a machine without free memory.
_ENDED_BY_LIMITS = (-signal.SIGXCPU, -signal.SIGALRM, -signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class PictureLimits:
    """Times are in seconds, `memory` in bytes, each for one picture.

    `at_once` pictures are decoded in parallel; another one waits at most `waiting` seconds.
    """

    cpu: int = 5
    # On a busy machine, the process gets only a part of the processor.
    wall: float = 10
    memory: int = 768 * 1024 * 1024
    at_once: int = 2
    waiting: float = 20


class Pictures:
    def __init__(self, limits: PictureLimits | None = None) -> None:
        self._limits = limits or PictureLimits()
        self._places = asyncio.Semaphore(self._limits.at_once)

    async def fitted(self, name: str, media_type: str, file: BinaryIO) -> tuple[str, bytes]:
        """The media type and bytes, unchanged if they fit; else smaller, without animation.

        Raises `WrongInput` with what is wrong with the picture. The process is always ended.
        """
        async with self._place(name):
            try:
                code, output = await self._decoded(media_type, file)
            except TimeoutError:
                raise WrongInput(_too_slow(name)) from None
            except OSError as refused:
                raise WrongInput(f"{name} could not be read now. Send it again.") from refused
            if code == 0 and not output:
                return media_type, await asyncio.to_thread(_whole, file)
        head, _, shown = output.partition(b"\n")
        if code == 0 and len(shown) <= MOST_BYTES:
            return head.decode(), shown
        raise WrongInput(_refusal(name, media_type, code, head))

    @asynccontextmanager
    async def _place(self, name: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._limits.waiting):
                await self._places.acquire()
        except TimeoutError:
            raise WrongInput(_too_slow(name)) from None
        try:
            yield
        finally:
            self._places.release()

    async def _decoded(self, media_type: str, file: BinaryIO) -> tuple[int, bytes]:
        """The exit code of the program, and its output. Raises `TimeoutError`."""
        limits = self._limits
        allowed = {
            "edge": LONGEST_EDGE,
            "size": MOST_BYTES,
            "pixels": MOST_PIXELS[media_type],
            "memory": limits.memory,
            "cpu": limits.cpu,
            "wall": limits.wall,
        }
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        async with asyncio.timeout(limits.wall), _running(media_type, allowed, file) as process:
            output = await _output(process, _LONGEST_HEAD + MOST_BYTES)
            # A program that writes too much is not waited for.
            is_ending = len(output) <= _LONGEST_HEAD + MOST_BYTES
            return await process.wait() if is_ending else UNREADABLE, output


@asynccontextmanager
async def _running(
    media_type: str, allowed: dict[str, float], file: BinaryIO
) -> AsyncIterator[Process]:
    """The running program. It gets the one file, no other descriptor, and an empty environment."""
    command = [sys.executable, "-I", str(_PROGRAM), media_type, json.dumps(allowed)]
    process = await asyncio.create_subprocess_exec(
        *command,
        str(os.getpid()),
        stdin=file,
        stdout=PIPE,
        stderr=DEVNULL,
        env={},
        cwd="/",
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _output(process: Process, most: int) -> bytes:
    """The output, up to one byte more than `most`."""
    assert process.stdout is not None
    try:
        return await process.stdout.readexactly(most + 1)
    except asyncio.IncompleteReadError as ended:
        return ended.partial


def _whole(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read(MOST_BYTES)


def _refusal(name: str, media_type: str, code: int, head: bytes) -> str:
    if code == TOO_MANY_PIXELS and head.isdigit():
        return (
            f"{name} has {int(head) // 1_000_000} million pixels. Send it with at most "
            f"{MOST_PIXELS[media_type] // 1_000_000} million."
        )
    if code == TOO_MUCH_MEMORY or code in _ENDED_BY_LIMITS:
        return _too_slow(name)
    return f"{name} is not a picture that can be read."


def _too_slow(name: str) -> str:
    return f"{name} takes too long to read. Send a smaller copy of it."
