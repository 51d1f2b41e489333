"""Files that came with a message, fetched before it is accepted; none of them can lose it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ollim_bot.chat import IncomingFile
from ollim_bot.errors import NotSent, Unreachable, Unsure, WriteFailed
from ollim_bot.ports import Clock
from ollim_bot.surfaces.discord.channel import Channel, RemoteFile
from ollim_bot.surfaces.discord.errands import pause_after

MOST_BYTES = 25 * 1024 * 1024
MOST_FILES = 10

_TRIES = 4
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class Fetched:
    """`notes` has a line for each file that is not here."""

    files: tuple[IncomingFile, ...] = ()
    notes: tuple[str, ...] = ()


class Fetching:
    """`folder` is for nothing else: what a crash left in it is removed."""

    def __init__(self, channel: Channel, clock: Clock, folder: Path) -> None:
        self._channel = channel
        self._clock = clock
        self._folder = folder

    async def prepare(self) -> None:
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    @asynccontextmanager
    async def fetched(self, ref: str, files: Sequence[RemoteFile]) -> AsyncIterator[Fetched]:
        """The files are gone when it ends, unless they were moved.

        Raises `WriteFailed` where the disk refuses.
        """
        if not files:
            yield Fetched()
            return
        folder = self._folder / ref
        try:
            try:
                await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
                fetched = await self._fetch_all(files, folder)
            except OSError as refused:
                reason = f"could not be written: {refused.strerror}."
                raise WriteFailed(folder, reason) from refused
            yield fetched
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _fetch_all(self, files: Sequence[RemoteFile], folder: Path) -> Fetched:
        here: list[IncomingFile] = []
        notes: list[str] = []
        for number, file in enumerate(files):
            target = folder / str(number)
            problem = _problem(file, number) or await self._fetch(file, target)
            if problem:
                notes.append(f"[{_plain(file.name)} could not be fetched: {problem}]")
            else:
                here.append(IncomingFile(file.name, target))
        return Fetched(tuple(here), tuple(notes))

    async def _fetch(self, file: RemoteFile, target: Path) -> str:
        """What is wrong with it; empty if it is here."""
        for tries in range(_TRIES):
            await self._clock.sleep(pause_after(tries))
            try:
                await self._channel.fetch(file, target, MOST_BYTES)
            except NotSent:
                return "not there any more, or too large"
            except (Unreachable, Unsure):
                continue
            return ""
        return "Discord does not answer"


def _problem(file: RemoteFile, number: int) -> str:
    if number >= MOST_FILES:
        return f"only {MOST_FILES} files can come with a message"
    if file.size > MOST_BYTES:
        return "too large"
    return "empty" if file.size == 0 else ""


def _plain(name: str) -> str:
    """On one line, and without what would end the note."""
    kept = "".join(each if each.isprintable() and each not in "[]" else " " for each in name)
    return kept.strip()[-_LONGEST_NAME:] or "file"
