"""One update or restore at a time, and the record of how far the last update has come."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.instance import held_file, look_at
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.store.codecs.plain import PLAIN, decode_plain, encode_plain
from ollim_bot.kernel.store.file_store import Malformed, render_json
from ollim_bot.kernel.store.files import PRIVATE, FileLock, OsDisk, write_atomically
from ollim_bot.kernel.store.snapshot import drop_kept_state, keep_deliveries, put_state_back

_LOOK = 0.1


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

    A record that nothing holds is of a process that was cut off.
    """

    def refusal(written: bytes) -> OllimError:
        return MaintenanceRunning(_read(written))

    paths.maintenance.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    record = Maintenance(kind, now.replace(microsecond=0), os.getpid())
    with held_file(paths.maintenance, encode_plain(record), refusal, patience=lambda _: 0.0):
        yield


def maintenance_in_progress(paths: DataPaths) -> Maintenance | None:
    """The update or restore that goes on now."""
    written, is_held = look_at(paths.maintenance)
    return _read(written) if is_held else None


def interrupted_maintenance(paths: DataPaths) -> Maintenance | None:
    """The update or restore that was cut off and has left its record."""
    written, is_held = look_at(paths.maintenance)
    return None if is_held else _read(written)


def _read(written: bytes) -> Maintenance | None:
    try:
        return decode_plain(Maintenance, written)
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


def exchange(first: Path, second: Path) -> None:
    """Let two folders take each other's names, in one step where the system can do that."""
    if not swap_names(first, second):
        aside = first.with_name(f"{first.name}.aside")
        os.rename(first, aside)
        os.rename(second, first)
        os.rename(aside, second)
    OsDisk().sync_folder(first.parent)


_CUT_OFF = "the update was cut off"


class Phase(StrEnum):
    """How far an update has come."""

    PREPARING = "preparing"  # nothing of the bot has changed
    READY = "ready"  # the running bot is asked to end its work
    KEPT = "trial"  # the state is kept, and either version may be in place
    SWITCHED = "switched"  # the new version is in place, and its heartbeat is awaited
    DONE = "done"
    RETURNED = "returned"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        return self in (Phase.DONE, Phase.RETURNED, Phase.FAILED)


@dataclass(frozen=True, slots=True)
class UpdateRecord:
    """An update from one version to another, in the environments of an installation.

    `began_at` names it. `bot` is the process that is asked to end its work, at once or `when_idle`,
    and goes on afterwards. `reason` says why the new version is not in use. `trust` is a sentence
    on why it is trusted although its origin cannot be proved.
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
    trust: str = ""

    def asks(self, bot: int) -> bool:
        """Whether it waits for the bot of this process to end its work."""
        return self.phase is Phase.READY and self.bot == bot

    @property
    def has_failed(self) -> bool:
        """Whether the new version, which is in place, has noted why it does not start."""
        return self.phase is Phase.SWITCHED and bool(self.reason)

    def holds(self, bot: int) -> bool:
        """Whether the bot of this process waits until a version is in place to go on as."""
        is_moving = self.phase in (Phase.READY, Phase.KEPT) or self.has_failed
        return is_moving and self.bot == bot

    def __str__(self) -> str:
        reason = self.reason if self.reason.endswith((".", "?", "!")) else f"{self.reason}."
        match self.phase:
            case Phase.DONE | Phase.SWITCHED:
                return f"Updated from {self.old} to {self.new}. {self.trust}".strip()
            case Phase.RETURNED:
                goes_on = f"so {self.old} goes on with all data as it was"
                return f"Version {self.new} did not start, {goes_on}: {reason}"
            case Phase.FAILED if self.old == self.new:
                return reason
            case _:
                return f"No update to {self.new}; {self.old} goes on: {reason}"


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


def note_update(paths: DataPaths, record: UpdateRecord) -> UpdateRecord:
    """Write the record if the disk takes it; else the next start finds out by itself."""
    with suppress(OllimError):
        write_update(paths, record)
    return record


def resume_update(paths: DataPaths, version: str) -> bool:
    """Finish or undo an update, as the `version` in place, before the store is opened.

    Every start of the bot does so, and so does the updater for the old version; the caller holds
    the instance lock. Returns whether the heartbeat of this version is awaited: until that has
    come, it takes and delivers nothing. Raises `StorageError` if the state cannot be put back; the
    next start tries again.
    """
    record = read_update(paths)
    if record is None or record.phase.is_over:
        return False
    if record.phase in (Phase.PREPARING, Phase.READY):
        if maintenance_in_progress(paths) is None:
            drop_kept_state(paths)
            note_update(paths, replace(record, phase=Phase.FAILED, reason=_CUT_OFF))
    elif version == record.old:
        put_state_back(paths)
        reason = record.reason or _CUT_OFF
        note_update(paths, replace(record, phase=Phase.RETURNED, reason=reason))
    # With a reason, the old version is in place again, and this one is of another installation.
    elif version == record.new and (record.phase is Phase.SWITCHED or not record.reason):
        keep_deliveries(paths)
        note_update(paths, replace(record, phase=Phase.SWITCHED, reason=""))
        return True
    return False


def confirm_update(paths: DataPaths) -> UpdateRecord | None:
    """Note that the new version has written its heartbeat; returns the last update.

    The bot and the updater may do so at once. Raises `StorageError`.
    """
    with suppress(OSError):  # the lock says what is wrong
        paths.locks.mkdir(mode=0o700, exist_ok=True)
    with FileLock(paths.lock_of(paths.update)).held():
        record = read_update(paths)
        if record is not None and record.phase is Phase.SWITCHED:
            drop_kept_state(paths)
            record = write_update(paths, replace(record, phase=Phase.DONE))
        return record


def note_failed_start(paths: DataPaths, reason: str) -> bool:
    """Note why the version of this process does not start, if its heartbeat is awaited.

    Returns whether it is noted: then this process waits for the switch back, and goes on as the old
    version.
    """
    record = read_update(paths)
    if record is None or record.phase is not Phase.SWITCHED:
        return False
    with suppress(OllimError):
        write_update(paths, replace(record, reason=reason, bot=os.getpid()))
        return True
    return False


def wait_for_switch(paths: DataPaths) -> None:
    """Return when this process can go on as the version in place; at once if no update asks for it.

    The bot of this process has ended its work, or did not start, and holds nothing. If it did not
    start and no updater is left, the old version is put in place here. Raises `OSError` if that
    cannot be done.
    """
    while True:
        # In this order: what ends has written its record before.
        is_updating = maintenance_in_progress(paths) is not None
        record = read_update(paths)
        if record is None or not record.holds(os.getpid()):
            return
        if not is_updating:
            break
        time.sleep(_LOOK)
    if record.has_failed:
        exchange(Path(record.environment), Path(record.beside))
        note_update(paths, replace(record, phase=Phase.KEPT))
