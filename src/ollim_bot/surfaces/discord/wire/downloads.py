"""Files that stand at Discord, fetched to the disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

import aiohttp

from ollim_bot.errors import NotSent, Unreachable, WriteFailed
from ollim_bot.plain_files import open_file
from ollim_bot.surfaces.discord.channel import RemoteFile
from ollim_bot.surfaces.discord.wire.refusals import OUT_OF_REACH, reading

T = TypeVar("T")

_CHUNK = 256 * 1024
_OK = 200
_GONE_CODES = frozenset({403, 404, 410})
_GONE = "`{name}` is not at Discord any more."
_TOO_LARGE = "`{name}` is too large."


async def download(file: RemoteFile, target: Path, most: int) -> None:
    """As `Channel.fetch` says. Raises `WriteFailed` where the disk does not take it."""
    try:
        async with _answer(file) as answer:
            await _keep(answer, file, target, most)
    except BaseException:  # cancelled too: half a file must not be taken for one
        await asyncio.to_thread(target.unlink, missing_ok=True)
        raise


@asynccontextmanager
async def _answer(file: RemoteFile) -> AsyncIterator[aiohttp.ClientResponse]:
    """In a session of its own, so that nothing of the bot's goes to where files are kept."""
    async with reading(), aiohttp.ClientSession() as session, session.get(file.url) as answer:
        if answer.status in _GONE_CODES:
            raise NotSent(_GONE.format(name=file.name))
        if answer.status != _OK:
            raise Unreachable(OUT_OF_REACH)
        yield answer


async def _keep(answer: aiohttp.ClientResponse, file: RemoteFile, target: Path, most: int) -> None:
    size = 0
    with await _on_disk(target, lambda: _created(target)) as kept:
        async for chunk in answer.content.iter_chunked(_CHUNK):
            size += len(chunk)
            if size > most:
                raise NotSent(_TOO_LARGE.format(name=file.name))
            await _on_disk(target, partial(kept.write, chunk))


def _created(target: Path) -> BinaryIO:
    """In place of one that a crash left behind, and for nobody else to read."""
    target.unlink(missing_ok=True)
    return open(open_file(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


async def _on_disk(target: Path, step: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(step)
    except OSError as error:
        raise WriteFailed(target, f"could not be written: {error.strerror}.") from error
