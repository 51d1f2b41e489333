"""One update or restore at a time, by an operating-system lock on a record of what is going on."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from ollim_bot.errors import OllimError, WriteFailed
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import open_file
from ollim_bot.store.codecs.plain import decode_plain, encode_plain
from ollim_bot.store.file_store import Malformed

_MOST = 1_000


class MaintenanceKind(StrEnum):
    UPDATE = "update"
    RESTORE = "restore"
    FORGETTING = "forgetting"


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What the process `pid` does, or did until it was cut off, since a moment."""

    kind: MaintenanceKind
    since: datetime
    pid: int

    def __str__(self) -> str:
        return f"the {self.kind} that began at {self.since:%H:%M} (process {self.pid})"


class MaintenanceRunning(OllimError):
    def __init__(self, running: Maintenance | None) -> None:
        what = "another update or restore" if running is None else str(running)
        super().__init__(f"Wait for {what} to end, then try again.")
        self.running = running


@contextmanager
def maintenance(paths: DataPaths, kind: MaintenanceKind, now: datetime) -> Iterator[None]:
    """Be the only update or restore of this data directory; raises `MaintenanceRunning`.

    The kernel releases the lock when the process ends in any way. A normal end removes the record;
    a record that nothing holds is of a process that was cut off.
    """
    descriptor = _locked(paths.maintenance)
    try:
        record = Maintenance(kind, now.replace(microsecond=0), os.getpid())
        os.ftruncate(descriptor, 0)
        with suppress(OSError):  # on a full disk the lock alone has to do
            os.pwrite(descriptor, encode_plain(record), 0)
        yield
    finally:
        # Removed while still locked, so that it cannot be another process's file.
        with suppress(FileNotFoundError):
            paths.maintenance.unlink()
        os.close(descriptor)


def maintenance_in_progress(paths: DataPaths) -> Maintenance | None:
    """The update or restore that goes on now."""
    record, is_held = _looked_at(paths.maintenance)
    return record if is_held else None


def interrupted_maintenance(paths: DataPaths) -> Maintenance | None:
    """The update or restore that was cut off and has left its record."""
    record, is_held = _looked_at(paths.maintenance)
    return None if is_held else record


def _looked_at(path: Path) -> tuple[Maintenance | None, bool]:
    try:
        descriptor = open_file(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None, False
    try:
        return _record(descriptor), not _can_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        try:
            descriptor = open_file(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as refused:
            raise WriteFailed(path, f"could not be opened: {refused.strerror}.") from refused
        if not _can_lock(descriptor, fcntl.LOCK_EX):
            running = _record(descriptor)
            os.close(descriptor)
            raise MaintenanceRunning(running)
        with suppress(FileNotFoundError):
            # The last holder may have removed the file between the opening and the lock.
            if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                return descriptor
        os.close(descriptor)


def _can_lock(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _record(descriptor: int) -> Maintenance | None:
    try:
        return decode_plain(Maintenance, os.pread(descriptor, _MOST, 0))
    except Malformed:
        return None
