"""One update or restore at a time, by an operating-system lock on a record of what is going on."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from ollim_bot.errors import AlreadyRunning, OllimError, WriteFailed
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit, open_file, read_file
from ollim_bot.store.codecs.plain import PLAIN, decode_plain, encode_plain
from ollim_bot.store.file_store import Malformed, render_json
from ollim_bot.store.files import PRIVATE, FileLock, OsDisk, write_atomically
from ollim_bot.store.kept_state import drop_kept_state, has_other_schema, keep_state, put_state_back
from ollim_bot.upkeep.instance import single_instance
from ollim_bot.upkeep.releases import last_words

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


# RENAME_EXCHANGE of Linux and RENAME_SWAP of macOS.
_SWAP = 2
_AT_CWD = -100


def swap_names(first: Path, second: Path) -> bool:
    """Exchange the two names in one step; False if the system or the disk cannot do that."""
    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(first), os.fsencode(second)
    try:
        if sys.platform == "darwin":
            code = library.renamex_np(*names, _SWAP)
        else:
            code = library.renameat2(_AT_CWD, names[0], _AT_CWD, names[1], _SWAP)
    except AttributeError:
        return False
    if code == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(first))


HEARTBEAT_LIMIT = 60.0
TRIAL = "--trial"
_CUT_OFF = "the update was cut off"


class Phase(StrEnum):
    """How far an update has come."""

    PREPARING = "preparing"  # nothing of the bot has changed
    READY = "ready"  # the running bot is asked to hand over
    TRIAL = "trial"  # the state is kept, and the new version may have changed the present one
    SWITCHED = "switched"  # the new version is in place, and its heartbeat is awaited
    RETURNING = "returning"  # the old version is in place, and its start puts the state back
    DONE = "done"
    RETURNED = "returned"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        return self in (Phase.DONE, Phase.RETURNED, Phase.FAILED)


@dataclass(frozen=True, slots=True)
class UpdateRecord:
    """An update from one version to another, in the environments of an installation.

    `began_at` names it. `bot` is the process that is asked to hand over, at once or `when_idle`.
    `reason` says why the new version is not in use. `switched_at` is when it began to be used.
    `trust` is a sentence on why it is trusted although its origin cannot be proved.
    """

    old: str
    new: str
    environment: str
    beside: str
    began_at: datetime
    phase: Phase = Phase.PREPARING
    bot: int | None = None
    when_idle: bool = False
    reason: str = ""
    switched_at: datetime | None = None
    trust: str = ""

    @property
    def python(self) -> Path:
        """The program of the version beside the one in place."""
        return Path(self.beside) / "bin" / "python"

    def __str__(self) -> str:
        match self.phase:
            case Phase.DONE | Phase.SWITCHED:
                return f"Updated from {self.old} to {self.new}. {self.trust}".strip()
            case Phase.RETURNED | Phase.RETURNING:
                whole = " with all data as it was" if self.switched_at is None else ""
                goes_on = f"so {self.old} goes on{whole}"
                return f"Version {self.new} did not start, {goes_on}: {_ended(self.reason)}"
            case Phase.FAILED if self.old == self.new:
                return _ended(self.reason)
            case _:
                return f"No update to {self.new}; {self.old} goes on: {_ended(self.reason)}"


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."


def read_update(paths: DataPaths) -> UpdateRecord | None:
    """The last update, or the one that goes on; None if there is none that can be understood."""
    try:
        return decode_plain(UpdateRecord, read_file(paths.update, SizeLimit.SETTINGS))
    except (OSError, Malformed):
        return None


def write_update(paths: DataPaths, record: UpdateRecord) -> UpdateRecord:
    """Write the record, whole and synced. Raises `StorageError`."""
    content = render_json(PLAIN.write(record), indent=2) + b"\n"
    write_atomically(OsDisk(), paths.update, content, PRIVATE)
    return record


def asked_to_hand_over(paths: DataPaths, pid: int) -> UpdateRecord | None:
    """The update that waits for the bot of this process to hand over."""
    record = read_update(paths)
    is_asked = record is not None and record.phase is Phase.READY and record.bot == pid
    return record if is_asked else None


def hand_over(
    paths: DataPaths,
    record: UpdateRecord,
    environ: Mapping[str, str],
    now: Callable[[], datetime],
    limit: float = HEARTBEAT_LIMIT,
) -> UpdateRecord:
    """Let the new version start on trial, and put it in place if it does. The bot has stopped.

    Otherwise the state is put back, and the old version stays. Never raises `OllimError`: what the
    disk refuses is the reason. The returned record is written as well, if the disk takes it.
    """
    try:
        keep_state(paths)
        record = write_update(paths, replace(record, phase=Phase.TRIAL))
    except OllimError as refused:
        return _noted(paths, replace(record, phase=Phase.FAILED, reason=str(refused)))
    reason = try_start(record.python, environ, limit)
    if not reason:
        try:
            exchange(Path(record.environment), Path(record.beside))
        except OSError as refused:
            reason = f"{record.environment} cannot be exchanged: {refused.strerror}"
    if not reason:
        return _noted(paths, replace(record, phase=Phase.SWITCHED, switched_at=now()))
    with suppress(AlreadyRunning), single_instance(paths.bot_pid):
        put_state_back(paths, None, now())
    return _noted(paths, replace(record, phase=Phase.RETURNED, reason=reason))


def settle_update(paths: DataPaths, version: str, now: datetime) -> None:
    """Finish or undo what an update left that was cut off, before the store is opened.

    Called at the start of the bot of this `version`, which holds the instance lock. Raises
    `StorageError` if the state cannot be put back.
    """
    record = read_update(paths)
    if record is None:
        return
    if record.phase is Phase.READY:
        drop_kept_state(paths)
        _noted(paths, replace(record, phase=Phase.FAILED, reason=_CUT_OFF))
    elif record.phase is Phase.TRIAL and version == record.old:
        put_state_back(paths, None, now)
        _noted(paths, replace(record, phase=Phase.RETURNED, reason=_CUT_OFF))
    elif record.phase is Phase.TRIAL and version == record.new:
        _noted(paths, replace(record, phase=Phase.SWITCHED, switched_at=now))
    elif record.phase is Phase.RETURNING and version == record.old:
        if has_other_schema(paths):
            put_state_back(paths, record.switched_at, now)
        drop_kept_state(paths)
        _noted(paths, replace(record, phase=Phase.RETURNED))


def update_lock(paths: DataPaths) -> AbstractContextManager[None]:
    """Held while the outcome is decided: the bot and the updater may do so at once."""
    with suppress(OSError):  # the lock says what is wrong
        paths.locks.mkdir(mode=0o700, exist_ok=True)
    return FileLock(paths.lock_of(paths.update)).held()


def confirm_update(paths: DataPaths) -> UpdateRecord | None:
    """Note that the version in use has written its heartbeat; returns the last update.

    Raises `StorageError`.
    """
    with update_lock(paths):
        record = read_update(paths)
        if record is not None and record.phase is Phase.SWITCHED:
            drop_kept_state(paths)
            record = write_update(paths, replace(record, phase=Phase.DONE))
        return record


def try_start(
    python: Path, environ: Mapping[str, str], limit: float, cwd: Path | None = None
) -> str:
    """Start a version on trial; returns why it does not start, or nothing."""
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                bot_command(python, TRIAL),
                env=dict(environ),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as refused:
            return f"{python}: {refused.strerror}"
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            return f"it gave no sign of life within {limit:g} s"
        finally:
            # Also what it has started itself.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return last_words(output.read().decode(errors="replace")) if code else ""


def bot_command(python: Path, *words: str) -> Sequence[str]:
    return (str(python), "-P", "-m", "ollim_bot", *words)


def exchange(first: Path, second: Path) -> None:
    """Let two folders take each other's names, in one step where the system can do that."""
    if not swap_names(first, second):
        aside = first.with_name(f"{first.name}.aside")
        os.rename(first, aside)
        os.rename(second, first)
        os.rename(aside, second)
    OsDisk().sync_folder(first.parent)


def _noted(paths: DataPaths, record: UpdateRecord) -> UpdateRecord:
    with suppress(OllimError):  # the next start finds out by itself
        write_update(paths, record)
    return record
