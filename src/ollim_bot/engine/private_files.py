"""Texts that a program gets in a file: a command line is short, and everybody can read it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import uuid4

from ollim_bot.errors import EngineError

_PREFIX = "for-the-engine-"
_LONGEST_LIFE = 3600.0


@asynccontextmanager
async def private_file(folder: Path, text: str) -> AsyncIterator[Path]:
    """A file that only we can read, until the context is left. Raises `EngineError`."""
    path = folder / f"{_PREFIX}{uuid4().hex}"
    try:
        await asyncio.to_thread(_write, path, text)
    except OSError as refused:
        reason = f"{folder}: {refused.strerror}."
        raise EngineError(f"The engine could not be started: {reason}") from refused
    try:
        yield path
    finally:
        await asyncio.to_thread(_remove, path)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "wb") as file:
        file.write(text.encode("utf-8", "replace"))


def _sweep(folder: Path) -> None:
    """Remove what a crash left behind."""
    longest_ago = time.time() - _LONGEST_LIFE
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if path.stat().st_mtime < longest_ago:
                path.unlink()


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
