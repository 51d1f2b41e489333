"""One bot at a time, by an operating-system lock that ends with the process that holds it."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from ollim_bot.kernel.base.errors import AlreadyRunning, OllimError, WriteFailed
from ollim_bot.kernel.base.plain_files import open_file

_MOST = 1_000
# What the sentinel writes in place of a process id.
_SENTINEL = b"sentinel\n"


@contextmanager
def single_instance(
    pid_file: Path,
    *,
    patience: float = 1.0,
    with_sentinel: float = 120.0,
    report: Callable[[str], None] = lambda _: None,
    is_sentinel: bool = False,
) -> Iterator[None]:
    """Be the one running bot; raises `AlreadyRunning` if another process is.

    A link or a folder in the place of the file is set aside, and `report` is told. The sentinel is
    no bot that runs: for so many seconds it is waited for until it has delivered.
    """
    if unfit := _set_aside_unless_file(pid_file):
        report(unfit)

    def refusal(written: bytes) -> OllimError:
        return AlreadyRunning(_pid_in(written))

    content = _SENTINEL if is_sentinel else f"{os.getpid()}\n".encode()
    with held_file(
        pid_file, content, refusal, lambda held: with_sentinel if held == _SENTINEL else patience
    ):
        yield


def running_pid(pid_file: Path) -> int | None:
    """The process id of the running bot, or None if none runs (or its id cannot be read)."""
    written, is_held = look_at(pid_file)
    return _pid_in(written) if is_held else None


@contextmanager
def held_file(
    path: Path,
    content: bytes,
    refusal: Callable[[bytes], OllimError],
    patience: Callable[[bytes], float] = lambda _: 1.0,
) -> Iterator[None]:
    """Be the only holder of the file, and write this into it; it is removed in the end.

    Raises the `refusal` of what the present holder has written, after the `patience` with it. The
    kernel releases the lock when the process ends in any way, and leaves the file. It also holds on
    a full disk, where others cannot read who has it.
    """
    descriptor = _acquire(path, refusal, patience)
    try:
        os.ftruncate(descriptor, 0)
        with suppress(OSError):
            os.pwrite(descriptor, content, 0)
        yield
    finally:
        # Removed while still locked, so that it cannot be another process's file.
        with suppress(FileNotFoundError):
            path.unlink()
        os.close(descriptor)


def look_at(path: Path) -> tuple[bytes, bool]:
    """What was written into such a file, and whether a process holds it now."""
    try:
        descriptor = open_file(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return b"", False
    try:
        written = os.pread(descriptor, _MOST, 0)
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return written, True
    finally:
        os.close(descriptor)
    return written, False


def removed_if_free(pid_file: Path) -> bool:
    """Remove the file that a killed bot left behind; False if a bot holds it, or it is gone."""
    try:
        descriptor = open_file(pid_file, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_still(pid_file, descriptor):
            return False
        pid_file.unlink()
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _acquire(
    path: Path, refusal: Callable[[bytes], OllimError], patience: Callable[[bytes], float]
) -> int:
    began = time.monotonic()
    # `look_at` holds the lock for an instant, so one refusal means nothing yet.
    while True:
        try:
            descriptor = open_file(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as refused:
            raise WriteFailed(path, f"could not be opened: {refused.strerror}.") from refused
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, descriptor):
                return descriptor
        except BlockingIOError:
            written = os.pread(descriptor, _MOST, 0)
            if time.monotonic() >= began + patience(written):
                os.close(descriptor)
                raise refusal(written) from None
            time.sleep(0.05)
        os.close(descriptor)


def _set_aside_unless_file(path: Path) -> str | None:
    try:
        if stat.S_ISREG(os.lstat(path).st_mode):
            return None
        kept_as = path.with_name(f"{path.name}.corrupt-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
        os.rename(path, kept_as)
    except FileNotFoundError:
        return None
    except OSError as refused:
        reason = f"is not a file, and cannot be moved: {refused.strerror}."
        raise WriteFailed(path, reason) from None
    place = path.parent.name
    return f"{place}/{path.name} was not a file. It was set aside as {place}/{kept_as.name}."


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the locked file is the one of that name: the last holder may have removed it."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _pid_in(written: bytes) -> int | None:
    text = written.strip()
    return int(text) if text.isdigit() else None
