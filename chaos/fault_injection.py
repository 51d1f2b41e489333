"""`python -m chaos.fault_injection` runs the bot and injects faults where the bot writes.

The program is the real one. Only the functions by which Python asks the operating system to write
are replaced. The environment variable `CHAOS_FAULTS` names the folder of the `FaultControl`.
"""

from __future__ import annotations

import errno
import os
import random
import runpy
import signal
import sqlite3
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from chaos.crash_points import DATABASE, WritePhase, crash_point, is_draft, label_of
from chaos.fault_control import ANY_POINT, CRASH, POWER_CUT, FaultControl, InjectedFault
from chaos.power_cut import UnsyncedChanges

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# The calls that fail with each error; "create" opens a file that does not exist yet.
_FAILING_CALLS: Mapping[str, frozenset[str]] = {
    "EIO": frozenset({"sync"}),
    "EROFS": frozenset({"open", "create", "rename", "link", "remove", "mkdir"}),
    "ENOSPC": frozenset({"create", "write", "link", "mkdir"}),
}
_REPLACED = ("open", "close", "write", "ftruncate", "fsync", "replace", "link", "unlink", "mkdir")
# The real function, before `install` replaces it.
_connect = sqlite3.connect


class FaultInjector:
    """Passes the program's calls on to the system, and makes them crash or fail as told.

    Only files and folders below `data` are watched, without the git history there. Calls for
    other paths are passed on unchanged.
    """

    def __init__(self, data: Path, control: FaultControl) -> None:
        self._data = data
        self._control = control
        self._system = {name: getattr(os, name) for name in _REPLACED}
        self._lock = threading.RLock()
        self._open_files: dict[int, tuple[Path, int]] = {}
        self._unsynced = UnsyncedChanges(control.folder)
        self._passed: set[str] = set()
        # The path that the running thread has changed last.
        self._changed = threading.local()

    def install(self) -> None:
        for name in _REPLACED:
            setattr(os, name, getattr(self, name))
        sqlite3.connect = self.connect  # type: ignore[assignment]

    def connect(self, database: Any, *words: Any, **options: Any) -> sqlite3.Connection:
        """The bot's database gets connections whose commits can fail; others are unchanged."""
        path = self._watched(database)
        if path is None or path.name != DATABASE:
            made: sqlite3.Connection = _connect(database, *words, **options)
            return made
        return _connect(database, *words, **options, factory=self._connection_class(path))

    def _connection_class(self, path: Path) -> type[sqlite3.Connection]:
        injector = self

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
                if sql == "BEGIN IMMEDIATE":
                    injector.before_begin(path)
                return super().execute(sql, *values) if sql != "COMMIT" else self._commit()

            def _commit(self) -> sqlite3.Cursor:
                is_change = self.total_changes > getattr(self, "_seen", 0)
                self._seen = self.total_changes
                if is_change:
                    injector.before_commit(path)
                done = super().execute("COMMIT")
                if is_change:
                    injector.after_commit(path)
                return done

        return Connection

    def before_begin(self, path: Path) -> None:
        if self._fault_for("open", path):
            self._fail_transaction("open", path, sqlite3.SQLITE_READONLY)

    def before_commit(self, path: Path) -> None:
        with self._lock:
            self._pass_crash_point(WritePhase.BEFORE_COMMIT, path)
            if self._fault_for("write", path):
                self._fail_transaction("write", path, sqlite3.SQLITE_FULL)

    def after_commit(self, path: Path) -> None:
        with self._lock:
            self._pass_crash_point(WritePhase.AFTER_COMMIT, path)

    def _fail_transaction(self, call: str, path: Path, code: int) -> NoReturn:
        fault = self._fault_for(call, path)
        assert fault is not None
        self._control.report(fault, f"{call} {path.name}")
        refused = sqlite3.OperationalError("refused by chaos")
        refused.sqlite_errorcode = code
        raise refused

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        watched = None if dir_fd is not None else self._watched(path)
        if watched is None:
            return int(self._call("open", path, flags, mode, dir_fd=dir_fd))
        with self._lock:
            is_new = bool(flags & os.O_CREAT) and not watched.exists()
            if flags & _WRITES:
                self._maybe_fail("create" if is_new else "open", watched)
            descriptor = int(self._call("open", path, flags, mode))
            self._open_files[descriptor] = (watched, os.fstat(descriptor).st_ino)
            if flags & _WRITES:
                self._changed.last = watched
            if is_new and not self._is_lock(watched):
                self._unsynced.created(watched)
            return descriptor

    def close(self, descriptor: int) -> None:
        with self._lock:
            self._open_files.pop(descriptor, None)
            self._call("close", descriptor)

    def write(self, descriptor: int, data: Any) -> int:
        path = self._watched_file(descriptor)
        if path is None:
            return int(self._call("write", descriptor, data))
        with self._lock:
            before = os.fstat(descriptor)
            self._unsynced.written(path, before.st_ino, before.st_size)
            self._pass_crash_point(WritePhase.BEFORE_WRITE, path)
            with memoryview(data) as whole:
                half = whole[: len(whole) // 2]
                if self._crashes_at(WritePhase.MID_WRITE, path) or self._fault_for("write", path):
                    self._call("write", descriptor, half)
            self._pass_crash_point(WritePhase.MID_WRITE, path)
            self._maybe_fail("write", path)
            return int(self._call("write", descriptor, data))

    def ftruncate(self, descriptor: int, length: int) -> None:
        with self._lock:
            self._call("ftruncate", descriptor, length)
            if self._watched_file(descriptor) is not None:
                self._unsynced.shortened(os.fstat(descriptor).st_ino, length)

    def fsync(self, descriptor: int) -> None:
        path = self._watched_file(descriptor)
        if path is None:
            self._call("fsync", descriptor)
            return
        with self._lock:
            status = os.fstat(descriptor)
            is_folder = stat.S_ISDIR(status.st_mode)
            about = self._last_in(path) if is_folder else path
            self._pass_crash_point(
                WritePhase.BEFORE_FOLDER_SYNC if is_folder else WritePhase.BEFORE_SYNC, about
            )
            self._maybe_fail("sync", about)
            self._call("fsync", descriptor)
            if is_folder:
                self._unsynced.folder_synced(path)
            else:
                self._unsynced.synced(status.st_ino)
            self._pass_crash_point(
                WritePhase.AFTER_FOLDER_SYNC if is_folder else WritePhase.AFTER_SYNC, about
            )

    def replace(self, source: Any, target: Any) -> None:
        old, new = self._watched(source), self._watched(target)
        if old is None or new is None:
            self._call("replace", source, target)
            return
        with self._lock:
            self._changed.last = new
            self._pass_crash_point(WritePhase.BEFORE_RENAME, new)
            self._maybe_fail("rename", new)
            backup = self._unsynced.back_up(new)
            self._call("replace", source, target)
            self._unsynced.renamed(old, new, backup)

    def link(self, source: Any, target: Any, **options: Any) -> None:
        new = self._watched(target)
        if new is None:
            self._call("link", source, target, **options)
            return
        with self._lock:
            self._changed.last = new
            self._pass_crash_point(WritePhase.BEFORE_LINK, new)
            self._maybe_fail("link", new)
            self._call("link", source, target, **options)
            self._unsynced.created(new)

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        watched = None if dir_fd is not None else self._watched(path)
        if watched is None or self._is_lock(watched) or not os.path.lexists(watched):
            self._call("unlink", path, dir_fd=dir_fd)
            return
        with self._lock:
            if not is_draft(watched):
                self._changed.last = watched
                self._pass_crash_point(WritePhase.BEFORE_REMOVAL, watched)
            self._maybe_fail("remove", watched)
            backup = self._unsynced.back_up(watched)
            self._call("unlink", path)
            self._unsynced.removed(watched, backup)

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        watched = None if dir_fd is not None else self._watched(path)
        if watched is not None and not watched.exists():
            self._maybe_fail("mkdir", watched)
        self._call("mkdir", path, mode, dir_fd=dir_fd)

    def _call(self, name: str, *words: Any, **options: Any) -> Any:
        return self._system[name](*words, **options)

    def _watched(self, given: Any) -> Path | None:
        """The path, if it is one that is watched."""
        if not isinstance(given, str | os.PathLike):
            return None
        path = Path(os.fspath(given))
        is_watched = path.is_relative_to(self._data) and ".git" not in path.parts
        return path if is_watched else None

    def _watched_file(self, descriptor: int) -> Path | None:
        """The inode is compared: a descriptor closed elsewhere may belong to another file now."""
        path, inode = self._open_files.get(descriptor, (None, 0))
        return path if path is not None and os.fstat(descriptor).st_ino == inode else None

    def _last_in(self, folder: Path) -> Path:
        """The path in `folder` that this thread has changed, and now syncs the folder for."""
        last: Path = getattr(self._changed, "last", folder)
        return last if last.parent == folder else folder

    def _is_lock(self, path: Path) -> bool:
        """Whether another process may hold the file as a lock. A power cut leaves those alone."""
        return ".locks" in path.parts or path.name == "bot.pid"

    def _crash_point(self, phase: WritePhase, path: Path) -> str:
        return crash_point(phase, path.relative_to(self._data))

    def _pass_crash_point(self, phase: WritePhase, path: Path) -> None:
        """Crash here, if that is the injected fault."""
        name = self._crash_point(phase, path)
        if name not in self._passed:
            self._passed.add(name)
            self._control.report_passed(self._passed)
        fault = self._control.current()
        if fault is None or fault.kind not in (CRASH, POWER_CUT):
            return
        if fault.crash_point in (ANY_POINT, name):
            self._crash(fault, name)

    def _crashes_at(self, phase: WritePhase, path: Path) -> bool:
        fault = self._control.current()
        return fault is not None and fault.crash_point == self._crash_point(phase, path)

    def _fault_for(self, call: str, path: Path) -> InjectedFault | None:
        """The error that is injected for this call."""
        fault = self._control.current()
        if fault is None or call not in _FAILING_CALLS.get(fault.kind, ()):
            return None
        label = label_of(path.relative_to(self._data))
        return fault if fault.label in ("", label) else None

    def _maybe_fail(self, call: str, path: Path) -> None:
        """Raise the error that is injected for this call, if there is one."""
        fault = self._fault_for(call, path)
        if fault is not None:
            self._control.report(fault, f"{call} {path.name}")
            number = getattr(errno, fault.kind)
            raise OSError(number, os.strerror(number), str(path))

    def _crash(self, fault: InjectedFault, where: str) -> NoReturn:
        if fault.kind == POWER_CUT:
            for pid in descendants(os.getpid()):
                os.kill(pid, signal.SIGKILL)
            self._unsynced.cut_power(random.Random(fault.seed))
        self._control.report(fault, where)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("SIGKILL has not ended the process")


def descendants(pid: int) -> list[int]:
    """The children of the process, their children, and so on."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(each) for each in path.read_text().split()]
        except OSError:  # the thread has ended meanwhile
            continue
        found += [each for child in children for each in (child, *descendants(child))]
    return found


def main() -> None:
    control = FaultControl(Path(os.environ["CHAOS_FAULTS"]))
    FaultInjector(Path(os.environ["OLLIM_DATA_DIR"]), control).install()
    runpy.run_module("ollim_bot", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
