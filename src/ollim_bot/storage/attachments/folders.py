"""The folders that attachments stand in: what is too old or too much leaves them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from ollim_bot.errors import WriteFailed


@dataclass(frozen=True, slots=True)
class KeptFile:
    name: str
    size: int
    at: datetime


class KeptFolder:
    """An open folder. Its files are named within it, so that no link can lead elsewhere."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[KeptFolder]:
        """Raises `WriteFailed` where the path is no folder, or a link to one."""
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(path, flags)
        except OSError as refused:
            reason = "is not a folder, or a link to one. Put a folder in its place."
            raise WriteFailed(path, reason) from refused
        try:
            yield cls(path, descriptor)
        finally:
            os.close(descriptor)

    def files(self, now: datetime) -> list[KeptFile]:
        """The oldest first; folders, links and the like are not looked at. In the zone of `now`."""
        found = []
        with os.scandir(self._descriptor) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if entry.is_file(follow_symlinks=False):
                        found.append(_kept_file(entry, now))
        return sorted(found, key=lambda file: (file.at, file.name))

    def remove(self, files: Sequence[KeptFile]) -> int:
        """How many of them were there to be removed."""
        count = 0
        try:
            for file in files:
                with suppress(FileNotFoundError):
                    os.unlink(file.name, dir_fd=self._descriptor)
                    count += 1
        except OSError as refused:
            reason = f"could not be cleaned: {refused.strerror}."
            raise WriteFailed(self._path, reason) from refused
        return count


def too_much(files: Sequence[KeptFile], most: int, today: date) -> list[KeptFile]:
    """Those, the oldest first, that have to leave for the rest to be at most `most` bytes.

    Files of today stay in any case.
    """
    excess = sum(file.size for file in files) - most
    leaving = []
    for file in files:
        if excess <= 0 or file.at.date() >= today:
            break
        leaving.append(file)
        excess -= file.size
    return leaving


def _kept_file(entry: os.DirEntry[str], now: datetime) -> KeptFile:
    status = entry.stat(follow_symlinks=False)
    # A file that was moved here has the time of its content; the other is when it was moved.
    newest = max(status.st_mtime, status.st_ctime)
    return KeptFile(entry.name, status.st_size, datetime.fromtimestamp(newest, now.tzinfo))
