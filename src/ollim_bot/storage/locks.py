"""A lock that holds among threads and among processes, and dies with its holder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ollim_bot.errors import WriteFailed
from ollim_bot.plain_files import open_file


class FileLock:
    """An operating-system lock on a file of its own, which is never removed.

    Every holder opens the file anew, so two threads exclude each other as two processes do. Not
    re-entrant.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the lock and hold it; raises `WriteFailed` where it cannot be made."""
        try:
            descriptor = open_file(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as refused:
            raise WriteFailed(self._path, f"could not be locked: {refused.strerror}.") from refused
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
