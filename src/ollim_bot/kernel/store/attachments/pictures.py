"""Makes pictures fit the model, in a process of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ollim_bot.kernel.base.errors import WrongInput

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
        slow = WrongInput(f"{name} takes too long to read. Send a smaller copy of it.")
        try:
            async with asyncio.timeout(self._limits.waiting):
                await self._places.acquire()
        except TimeoutError:
            raise slow from None
        try:
            code, output = await self._decoded(media_type, file)
        except TimeoutError:
            raise slow from None
        except OSError as refused:
            raise WrongInput(f"{name} could not be read now. Send it again.") from refused
        finally:
            self._places.release()
        head, _, shown = output.partition(b"\n")
        verdict, _, detail = head.decode("ascii", "replace").partition(" ")
        if code == 0 and verdict == "fits":
            return media_type, await asyncio.to_thread(_whole, file)
        if code == 0 and verdict == "shown" and detail in MOST_PIXELS and len(shown) <= MOST_BYTES:
            return detail, shown
        if verdict == "pixels" and detail.isdigit():
            raise WrongInput(
                f"{name} has {int(detail) // 1_000_000} million pixels. Send it with at most "
                f"{MOST_PIXELS[media_type] // 1_000_000} million."
            )
        if verdict == "memory" or code in _ENDED_BY_LIMITS:
            raise slow
        raise WrongInput(f"{name} is not a picture that can be read.")

    async def _decoded(self, media_type: str, file: BinaryIO) -> tuple[int, bytes]:
        """The exit code and the output of the program. Raises `TimeoutError`.

        It gets the one file, no other descriptor, and an empty environment.
        """
        limits = self._limits
        allowed = {"edge": LONGEST_EDGE, "size": MOST_BYTES, "pixels": MOST_PIXELS[media_type]}
        allowed |= {"memory": limits.memory, "cpu": limits.cpu}
        given = (media_type, json.dumps({**allowed, "wall": limits.wall}), str(os.getpid()))
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        async with asyncio.timeout(limits.wall):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", str(_PROGRAM), *given),
                stdin=file,
                stdout=PIPE,
                stderr=DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
            try:
                assert process.stdout is not None
                # A program that writes more is not waited for.
                return -1, await process.stdout.readexactly(_LONGEST_HEAD + MOST_BYTES + 1)
            except asyncio.IncompleteReadError as ended:
                return await process.wait(), ended.partial
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


def _whole(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read(MOST_BYTES)
