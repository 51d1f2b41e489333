"""`python -m chaos.wounded` is the bot on a wounded system, which fails and dies as it is told.

Nothing of the bot is changed: what is replaced are the calls by which Python asks the operating
system to write. `CHAOS_ORDERS` is the folder of the orders.
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

from chaos.orders import ANY, CUT, DIE, Order, Orders
from chaos.points import DATABASE, Moment, is_draft, label_of, point
from chaos.power import Unsynced

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# Which calls an error meets; "create" is to open a file that was not there.
_MEETS: Mapping[str, frozenset[str]] = {
    "EIO": frozenset({"sync"}),
    "EROFS": frozenset({"open", "create", "rename", "link", "remove", "mkdir"}),
    "ENOSPC": frozenset({"create", "write", "link", "mkdir"}),
}
_REPLACED = ("open", "close", "write", "ftruncate", "fsync", "replace", "link", "unlink", "mkdir")
# The module's own, before it is replaced.
_connect = sqlite3.connect


class WoundedSystem:
    """Stands between the program and the system for all below `data` but the history of git."""

    def __init__(self, data: Path, orders: Orders) -> None:
        self._data = data
        self._orders = orders
        self._system = {name: getattr(os, name) for name in _REPLACED}
        self._lock = threading.RLock()
        self._open_files: dict[int, tuple[Path, int]] = {}
        self._unsynced = Unsynced(orders.folder)
        self._passed: set[str] = set()
        self._mine = threading.local()

    def install(self) -> None:
        for name in _REPLACED:
            setattr(os, name, getattr(self, name))
        sqlite3.connect = self.connect  # type: ignore[assignment]

    def connect(self, database: Any, *words: Any, **options: Any) -> sqlite3.Connection:
        """The database of the bot commits through this system; others are let alone."""
        place = self._place(database)
        if place is None or place.name != DATABASE:
            made: sqlite3.Connection = _connect(database, *words, **options)
            return made
        return _connect(database, *words, **options, factory=self._wounded(place))

    def _wounded(self, place: Path) -> type[sqlite3.Connection]:
        system = self

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
                if sql == "BEGIN IMMEDIATE":
                    system.begin(place)
                return super().execute(sql, *values) if sql != "COMMIT" else self._commit()

            def _commit(self) -> sqlite3.Cursor:
                is_change = self.total_changes > getattr(self, "_seen", 0)
                self._seen = self.total_changes
                if is_change:
                    system.commit(place)
                done = super().execute("COMMIT")
                if is_change:
                    system.committed(place)
                return done

        return Connection

    def begin(self, place: Path) -> None:
        if self._refusal("open", place):
            self._refuse_commit("open", place, sqlite3.SQLITE_READONLY)

    def commit(self, place: Path) -> None:
        with self._lock:
            self._pass(Moment.COMMIT, place)
            if self._refusal("write", place):
                self._refuse_commit("write", place, sqlite3.SQLITE_FULL)

    def committed(self, place: Path) -> None:
        with self._lock:
            self._pass(Moment.COMMITTED, place)

    def _refuse_commit(self, call: str, place: Path, code: int) -> NoReturn:
        order = self._refusal(call, place)
        assert order is not None
        self._orders.tell(order, f"{call} {place.name}")
        refused = sqlite3.OperationalError("refused by chaos")
        refused.sqlite_errorcode = code
        raise refused

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        place = None if dir_fd is not None else self._place(path)
        if place is None:
            return int(self._call("open", path, flags, mode, dir_fd=dir_fd))
        with self._lock:
            is_new = bool(flags & os.O_CREAT) and not place.exists()
            if flags & _WRITES:
                self._refuse("create" if is_new else "open", place)
            descriptor = int(self._call("open", path, flags, mode))
            self._open_files[descriptor] = (place, os.fstat(descriptor).st_ino)
            if flags & _WRITES:
                self._mine.last = place
            if is_new and not self._is_lock(place):
                self._unsynced.created(place)
            return descriptor

    def close(self, descriptor: int) -> None:
        with self._lock:
            self._open_files.pop(descriptor, None)
            self._call("close", descriptor)

    def write(self, descriptor: int, data: Any) -> int:
        place = self._file(descriptor)
        if place is None:
            return int(self._call("write", descriptor, data))
        with self._lock:
            before = os.fstat(descriptor)
            self._unsynced.written(place, before.st_ino, before.st_size)
            self._pass(Moment.WRITING, place)
            with memoryview(data) as whole:
                half = whole[: len(whole) // 2]
                if self._is_ordered(Moment.HALF, place) or self._refusal("write", place):
                    self._call("write", descriptor, half)
            self._pass(Moment.HALF, place)
            self._refuse("write", place)
            return int(self._call("write", descriptor, data))

    def ftruncate(self, descriptor: int, length: int) -> None:
        with self._lock:
            self._call("ftruncate", descriptor, length)
            if self._file(descriptor) is not None:
                self._unsynced.shortened(os.fstat(descriptor).st_ino, length)

    def fsync(self, descriptor: int) -> None:
        place = self._file(descriptor)
        if place is None:
            self._call("fsync", descriptor)
            return
        with self._lock:
            status = os.fstat(descriptor)
            is_folder = stat.S_ISDIR(status.st_mode)
            about = self._last_in(place) if is_folder else place
            self._pass(Moment.FOLDER if is_folder else Moment.SYNC, about)
            self._refuse("sync", about)
            self._call("fsync", descriptor)
            if is_folder:
                self._unsynced.folder_synced(place)
            else:
                self._unsynced.synced(status.st_ino)
            self._pass(Moment.DONE if is_folder else Moment.SYNCED, about)

    def replace(self, source: Any, target: Any) -> None:
        old, new = self._place(source), self._place(target)
        if old is None or new is None:
            self._call("replace", source, target)
            return
        with self._lock:
            self._mine.last = new
            self._pass(Moment.RENAMING, new)
            self._refuse("rename", new)
            kept = self._unsynced.keep(new)
            self._call("replace", source, target)
            self._unsynced.renamed(old, new, kept)

    def link(self, source: Any, target: Any, **options: Any) -> None:
        new = self._place(target)
        if new is None:
            self._call("link", source, target, **options)
            return
        with self._lock:
            self._mine.last = new
            self._pass(Moment.LINKING, new)
            self._refuse("link", new)
            self._call("link", source, target, **options)
            self._unsynced.created(new)

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        place = None if dir_fd is not None else self._place(path)
        if place is None or self._is_lock(place) or not os.path.lexists(place):
            self._call("unlink", path, dir_fd=dir_fd)
            return
        with self._lock:
            if not is_draft(place):
                self._mine.last = place
                self._pass(Moment.REMOVAL, place)
            self._refuse("remove", place)
            kept = self._unsynced.keep(place)
            self._call("unlink", path)
            self._unsynced.removed(place, kept)

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        place = None if dir_fd is not None else self._place(path)
        if place is not None and not place.exists():
            self._refuse("mkdir", place)
        self._call("mkdir", path, mode, dir_fd=dir_fd)

    def _call(self, name: str, *words: Any, **options: Any) -> Any:
        return self._system[name](*words, **options)

    def _place(self, path: Any) -> Path | None:
        if not isinstance(path, str | os.PathLike):
            return None
        place = Path(os.fspath(path))
        is_ours = place.is_relative_to(self._data) and ".git" not in place.parts
        return place if is_ours else None

    def _file(self, descriptor: int) -> Path | None:
        """Only if it is still that file: what is closed elsewhere leaves its number to others."""
        place, number = self._open_files.get(descriptor, (None, 0))
        return place if place is not None and os.fstat(descriptor).st_ino == number else None

    def _last_in(self, folder: Path) -> Path:
        """What this thread has changed there, for which the folder is synced now."""
        last: Path = getattr(self._mine, "last", folder)
        return last if last.parent == folder else folder

    def _is_lock(self, place: Path) -> bool:
        """Which another process may hold; what is in it is of no use after a cut."""
        return ".locks" in place.parts or place.name == "bot.pid"

    def _name(self, moment: Moment, place: Path) -> str:
        return point(moment, place.relative_to(self._data))

    def _pass(self, moment: Moment, place: Path) -> None:
        name = self._name(moment, place)
        if name not in self._passed:
            self._passed.add(name)
            self._orders.saw(self._passed)
        order = self._orders.current()
        if order is not None and order.deed in (DIE, CUT) and order.point in (ANY, name):
            self._die(order, name)

    def _is_ordered(self, moment: Moment, place: Path) -> bool:
        order = self._orders.current()
        return order is not None and order.point == self._name(moment, place)

    def _refusal(self, call: str, place: Path) -> Order | None:
        order = self._orders.current()
        if order is None or call not in _MEETS.get(order.deed, ()):
            return None
        label = label_of(place.relative_to(self._data))
        return order if order.label in ("", label) else None

    def _refuse(self, call: str, place: Path) -> None:
        order = self._refusal(call, place)
        if order is not None:
            self._orders.tell(order, f"{call} {place.name}")
            number = getattr(errno, order.deed)
            raise OSError(number, os.strerror(number), str(place))

    def _die(self, order: Order, where: str) -> NoReturn:
        if order.deed == CUT:
            for pid in descendants(os.getpid()):
                os.kill(pid, signal.SIGKILL)
            self._unsynced.cut(random.Random(order.seed))
        self._orders.tell(order, where)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nobody outlives this")


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(each) for each in path.read_text().split()]
        except OSError:  # the thread has ended meanwhile
            continue
        found += [each for child in children for each in (child, *descendants(child))]
    return found


def main() -> None:
    orders = Orders(Path(os.environ["CHAOS_ORDERS"]))
    WoundedSystem(Path(os.environ["OLLIM_DATA_DIR"]), orders).install()
    runpy.run_module("ollim_bot", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
