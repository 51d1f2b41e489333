"""Tells which files have changed, and reads each version of a file once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

# Two changes within the clock's resolution look like one, so a file this fresh is read again.
_GRAIN_NS = 100_000_000

# Change time, size and inode; None for a name that leads to no file.
Stamp = tuple[int, int, int] | None


def stamp(entry: Path | os.DirEntry[str]) -> Stamp:
    """Differs from an earlier one if the file was written or replaced since."""
    try:
        status = entry.stat()
    except (OSError, ValueError):
        return None
    return status.st_ctime_ns, status.st_size, status.st_ino


def stamps(paths: Iterable[Path]) -> dict[str, Stamp]:
    return {str(path): stamp(path) for path in paths}


class Version(NamedTuple, Generic[T]):
    """What a file holds since it was written last: another object after each write."""

    stamp: Stamp
    content: T


class FileIndex(Generic[T]):
    """What some files hold, by name, in order. For any thread.

    `list_files` returns the present stamps by name, and `read` the content of one; it raises
    `FileNotFoundError` if the file is gone by then. What `is_final` refuses is read again at the
    next look, though the file looks the same.
    """

    def __init__(
        self,
        list_files: Callable[[], Mapping[str, Stamp]],
        read: Callable[[str], T],
        is_final: Callable[[T], bool] = lambda _: True,
    ) -> None:
        self._list_files = list_files
        self._read = read
        self._is_final = is_final
        self._stamps: Mapping[str, Stamp] = {}
        self._fresh: frozenset[str] = frozenset()
        self._versions: Mapping[str, Version[T]] = {}
        self._lock = threading.Lock()

    def look(self) -> Mapping[str, Version[T]]:
        """Look at the files now. Returns the same object as before if none was touched."""
        with self._lock:
            listed = self._list_files()
            if listed != self._stamps or self._fresh:
                self._look_again(listed)
            return self._versions

    def is_as(self, versions: Mapping[str, Version[T]]) -> bool:
        """Whether a look would return these versions; nothing is read."""
        listed = {name: each for name, each in self._list_files().items() if each is not None}
        return versions == self._versions and listed == self._stamps

    def _look_again(self, listed: Mapping[str, Stamp]) -> None:
        before, now = self._versions, time.time_ns()
        found: dict[str, Version[T]] = {}
        fresh = set()
        for name in sorted(listed):
            known, found_stamp = before.get(name), listed[name]
            is_same = known is not None and known.stamp == found_stamp
            if known is not None and is_same and name not in self._fresh:
                found[name] = known
                continue
            try:
                content = self._read(name)
            except FileNotFoundError:
                continue
            if known is not None and known.content == content:
                content = known.content
            if known is not None and is_same and known.content is content:
                found[name] = known
            else:
                found[name] = Version(found_stamp, content)
            is_old = found_stamp is not None and abs(now - found_stamp[0]) > _GRAIN_NS
            if not (is_old and self._is_final(content)):
                fresh.add(name)
        self._stamps = {name: listed[name] for name in found}
        self._fresh = frozenset(fresh)
        if touched(before, found):
            self._versions = found


def touched(before: Mapping[str, Version[T]], after: Mapping[str, Version[T]]) -> set[str]:
    """The names of the files that are new, written or removed."""
    if before is after:
        return set()
    return {name for name in {*before, *after} if before.get(name) is not after.get(name)}
