"""Opens files of unknown origin: only regular ones, and none larger than expected.

Opening a pipe could block for ever, a device may act on being opened, and a file of gigabytes would
take all memory. Each path is checked before and after it is opened, since another process may
replace it in between.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_KB, _MB = 1000, 1000**2
# These flags change nothing for a regular file.
_NEVER_WAITING = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_BLOCK = 65536


class SizeLimit:
    """The largest size in bytes of each kind of file; a larger file is refused unread."""

    SETTINGS = 1 * _MB
    PROFILE = 64 * _KB
    POLICY = 1 * _MB
    IGNORED = 1 * _MB
    JOB = 1 * _MB
    SKILL = 1 * _MB
    TASKS = 1 * _MB
    # Git is slow with larger files and keeps them for ever.
    IN_HISTORY = 25 * _MB
    STATE = 32 * _MB
    # One month of entries, far more than a person and a bot produce.
    LOG = 256 * _MB
    # A request, a secret, a script of one line.
    NOTE = 64 * _KB


class UnsuitableFile(OSError):
    """A path that must not be read; `reason` completes the sentence "it is"."""

    def __init__(self, number: int, reason: str, path: str | Path) -> None:
        super().__init__(number, reason, str(path))
        self.reason = reason


class NotAFile(UnsuitableFile):
    """The path leads to a folder, a pipe, a socket or a device."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(errno.EINVAL, "not a regular file", path)


class TooLarge(UnsuitableFile):
    def __init__(self, path: str | Path, most: int) -> None:
        super().__init__(errno.EFBIG, f"larger than {size_in_words(most)}", path)


def size_in_words(size: int) -> str:
    """`64 kB`, `1 MB`."""
    return f"{size // _MB} MB" if size >= _MB else f"{size // _KB} kB"


def read_file(path: str | Path, most: int) -> bytes:
    """The whole content. Raises `NotAFile`, `TooLarge`, or another `OSError`."""
    return read_with_status(path, most)[0]


def read_with_status(path: str | Path, most: int) -> tuple[bytes, os.stat_result]:
    """The whole content, and the status of the very file that was read."""
    descriptor, status = _opened(path, os.O_RDONLY, 0, None)
    try:
        if status.st_size > most:
            raise TooLarge(path, most)
        return _all_of(descriptor, path, status.st_size, most), status
    finally:
        os.close(descriptor)


def _all_of(descriptor: int, path: str | Path, size: int, most: int) -> bytes:
    data = b""
    while True:
        # One byte more than expected shows that the file has grown since.
        wanted = min(max(size, _BLOCK), most - len(data)) + 1
        part = os.read(descriptor, wanted)
        data = data + part if data else part
        if len(data) > most:
            raise TooLarge(path, most)
        # A read that is short at the expected end needs no second one to find that end.
        if not part or (len(part) < wanted and len(data) == size):
            return data


def unsuitable_file(path: str | Path, most: int) -> UnsuitableFile | None:
    """The reason not to read a path, found without opening it; None if it may be read."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return NotAFile(path)
    return TooLarge(path, most) if status.st_size > most else None


@contextmanager
def opened_file(path: str | Path, flags: int = os.O_RDONLY, mode: int = 0) -> Iterator[int]:
    """The descriptor of a regular file. Raises `NotAFile`."""
    descriptor = open_file(path, flags, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(
    path: str | Path, flags: int = os.O_RDONLY, mode: int = 0, *, folder: int | None = None
) -> int:
    """As `os.open`, relative to the open `folder` if given. Raises `NotAFile`.

    With `O_NOFOLLOW`, a link is not a regular file either.
    """
    return _opened(path, flags, mode, folder)[0]


def _opened(
    path: str | Path, flags: int, mode: int, folder: int | None
) -> tuple[int, os.stat_result]:
    try:
        _check(os.stat(path, dir_fd=folder, follow_symlinks=not flags & os.O_NOFOLLOW), path)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | _NEVER_WAITING, mode, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        _check(status, path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor, status


def _check(status: os.stat_result, path: str | Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotAFile(path)
