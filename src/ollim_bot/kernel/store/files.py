"""Changes files atomically and durably, locks them, and reads each version of them once."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.base.plain_files import UnsuitableFile, open_file, opened_file, read_file

if TYPE_CHECKING:
    from ollim_bot.kernel.values.ports import Disk

T = TypeVar("T")

PRIVATE = 0o600
SHARED = 0o644


class OsDisk:
    """The disk of the operating system."""

    def read(self, path: Path, most: int) -> bytes:
        return read_file(path, most)

    def write(self, path: Path, data: bytes, mode: int) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)
        with opened_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode) as descriptor:
            os.fchmod(descriptor, mode)
            _write_all(descriptor, data)

    def append(self, path: Path, data: bytes, mode: int, *, sync: bool) -> None:
        with opened_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode) as descriptor:
            end = os.fstat(descriptor).st_size
            try:
                _write_all(descriptor, data)
                if sync:
                    _sync(descriptor)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, end)
                raise

    def sync(self, path: Path) -> None:
        with opened_file(path) as descriptor:
            _sync(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def link(self, source: Path, target: Path) -> None:
        try:
            os.link(source, target)
        except OSError as refused:
            if refused.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
                raise
            # This file system has no hard links: reserve the name, then replace it.
            with opened_file(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE):
                os.replace(source, target)

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def sync_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync(descriptor: int) -> None:
    # On macOS fsync stops at the drive's cache; F_FULLFSYNC goes through it.
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, full_sync)


def write_atomically(disk: Disk, path: Path, data: bytes, mode: int) -> None:
    """Replace the file's content as one step that survives a power cut.

    If a step fails, the file holds the whole old or the whole new content. An existing file keeps
    its mode. Only one writer at a time may write a path: callers hold its lock.
    """
    with _refusals_as(path), _temporary(disk, path, data, _mode_of(path, mode)) as temporary:
        disk.replace(temporary, path)
        disk.sync_folder(path.parent)


def replace_unchanged(disk: Disk, path: Path, before: bytes, data: bytes, mode: int) -> bool:
    """As `write_atomically`, if the content is still `before`; False if another program wrote it.

    The content is compared as the last step before the file is replaced.
    """
    with _refusals_as(path), _temporary(disk, path, data, _mode_of(path, mode)) as temporary:
        try:
            is_unchanged = disk.read(path, len(before)) == before
        except (FileNotFoundError, UnsuitableFile):
            is_unchanged = False
        if is_unchanged:
            disk.replace(temporary, path)
            disk.sync_folder(path.parent)
        return is_unchanged


def create_atomically(disk: Disk, path: Path, data: bytes, mode: int) -> bool:
    """Create a new file in one step; False if the name is taken."""
    with _refusals_as(path), _temporary(disk, path, data, mode) as temporary:
        try:
            disk.link(temporary, path)
        except FileExistsError:
            return False
        disk.sync_folder(path.parent)
        return True


def remove_durably(disk: Disk, path: Path) -> None:
    """Remove the file if it is there, so that a power cut does not bring it back."""
    with _refusals_as(path):
        try:
            disk.remove(path)
        except FileNotFoundError:
            return
        disk.sync_folder(path.parent)


def append_line(disk: Disk, path: Path, data: bytes, *, sync: bool) -> None:
    """Append `data`, which ends in a newline, to the file: all of it or nothing.

    A line that an earlier crash left incomplete is closed first, so that the two do not merge.
    """
    with _refusals_as(path):
        disk.append(path, b"\n" + data if _ends_torn(path) else data, PRIVATE, sync=sync)


def rename_durably(disk: Disk, path: Path, target: Path) -> None:
    with _refusals_as(path):
        disk.replace(path, target)
        disk.sync_folder(path.parent)


@contextmanager
def _temporary(disk: Disk, path: Path, data: bytes, mode: int) -> Iterator[Path]:
    # The name is always the same, so that a kill leaves at most one behind for the next write.
    temporary = path.with_name(f".{path.name[:60]}.tmp")
    try:
        disk.write(temporary, data, mode)
        disk.sync(temporary)
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            disk.remove(temporary)


@contextmanager
def _refusals_as(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as refused:
        reason = refused.strerror or str(refused)
        raise WriteFailed(path, f"could not be written: {reason}. Nothing was lost.") from refused


def _mode_of(path: Path, default: int) -> int:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return default


def _ends_torn(path: Path) -> bool:
    try:
        with opened_file(path) as descriptor:
            size = os.fstat(descriptor).st_size
            return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    except FileNotFoundError:
        return False


class FileLock:
    """An operating-system lock on a file of its own, which is never removed.

    Every holder opens the file anew, so two threads exclude each other as two processes do. The
    lock is not re-entrant.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def held_if_free(self) -> Iterator[bool]:
        """Hold the lock, or yield False if another process holds it. Raises `WriteFailed`."""
        descriptor = self._opened()
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_free = True
            except BlockingIOError:
                is_free = False
            yield is_free
        finally:
            os.close(descriptor)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the lock and hold it; raises `WriteFailed` if its file cannot be created."""
        descriptor = self._opened()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        try:
            return open_file(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as refused:
            raise WriteFailed(self._path, f"could not be locked: {refused.strerror}.") from refused


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


class SeenFile(NamedTuple, Generic[T]):
    """What a file holds since it was written last: another object after each write."""

    stamp: Stamp
    content: T


class FileReadings(Generic[T]):
    """What some files hold, by name, in order. For any thread.

    `list_files` returns the present stamps by name, and `read` the content of one; it raises
    `FileNotFoundError` if the file has gone since. What `is_final` refuses is read again at the
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
        self._versions: Mapping[str, SeenFile[T]] = {}
        self._lock = threading.Lock()

    def look(self) -> Mapping[str, SeenFile[T]]:
        """Look at the files now. Returns the same object as before if none was touched."""
        with self._lock:
            listed = self._list_files()
            if listed != self._stamps or self._fresh:
                self._look_again(listed)
            return self._versions

    def is_as(self, versions: Mapping[str, SeenFile[T]]) -> bool:
        """Whether a look would return these versions; nothing is read."""
        return versions == self._versions and _present(self._list_files()) == _present(self._stamps)

    def _look_again(self, listed: Mapping[str, Stamp]) -> None:
        before, now = self._versions, time.time_ns()
        found: dict[str, SeenFile[T]] = {}
        for name in sorted(listed):
            known, seen_stamp = before.get(name), listed[name]
            if known is not None and known.stamp == seen_stamp and name not in self._fresh:
                found[name] = known
                continue
            with suppress(FileNotFoundError):
                found[name] = self._read_again(name, seen_stamp, known)
        self._stamps = {name: listed[name] for name in found}
        self._fresh = frozenset(name for name in found if self._is_fresh(found[name], now))
        if touched(before, found):
            self._versions = found

    def _is_fresh(self, seen: SeenFile[T], now: int) -> bool:
        is_old = seen.stamp is not None and abs(now - seen.stamp[0]) > _GRAIN_NS
        return not (is_old and self._is_final(seen.content))

    def _read_again(self, name: str, seen: Stamp, known: SeenFile[T] | None) -> SeenFile[T]:
        """The file as it is now; the object from before if nothing shows that it was written."""
        content = self._read(name)
        if known is None or known.content != content:
            return SeenFile(seen, content)
        return known if known.stamp == seen else SeenFile(seen, known.content)


def _present(listed: Mapping[str, Stamp]) -> dict[str, Stamp]:
    return {name: each for name, each in listed.items() if each is not None}


def touched(before: Mapping[str, SeenFile[T]], after: Mapping[str, SeenFile[T]]) -> set[str]:
    """The names of the files that are new, written or removed."""
    if before is after:
        return set()
    return {name for name in {*before, *after} if before.get(name) is not after.get(name)}


class ReadOnlyJournal:
    """The journal where no file is changed."""

    def note(self, path: Path, message: str, source: str = "") -> None:
        raise AssertionError(f"{path} was written where nothing may be: {message} {source}")
