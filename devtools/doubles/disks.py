"""Disks that fail: at a chosen step, or by forgetting what was not synced."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.values.ports import Disk


class SteppedDisk:
    """Calls `before(step, path)` ahead of every step, which may raise, count or kill."""

    def __init__(self, disk: Disk, before: Callable[[str, Path], None]) -> None:
        self._disk = disk
        self._before = before

    def read(self, path: Path, most: int) -> bytes:
        self._before("read", path)
        return self._disk.read(path, most)

    def write(self, path: Path, data: bytes, mode: int) -> None:
        self._before("write", path)
        self._disk.write(path, data, mode)

    def append(self, path: Path, data: bytes, mode: int, *, sync: bool) -> None:
        self._before("append", path)
        self._disk.append(path, data, mode, sync=sync)

    def sync(self, path: Path) -> None:
        self._before("sync", path)
        self._disk.sync(path)

    def replace(self, source: Path, target: Path) -> None:
        self._before("replace", target)
        self._disk.replace(source, target)

    def link(self, source: Path, target: Path) -> None:
        self._before("link", target)
        self._disk.link(source, target)

    def remove(self, path: Path) -> None:
        self._before("remove", path)
        self._disk.remove(path)

    def sync_folder(self, folder: Path) -> None:
        self._before("sync_folder", folder)
        self._disk.sync_folder(folder)


def failing_at(*steps: str, code: int = errno.ENOSPC, disk: Disk | None = None) -> SteppedDisk:
    """A disk, by default the real one, that fails at the steps of these names."""

    def fail(step: str, _: Path) -> None:
        if step in steps:
            raise OSError(code, os.strerror(code))

    return SteppedDisk(disk or OsDisk(), fail)


@dataclass(eq=False)
class _Content:
    """One file's bytes, apart from its names: current, and as a power cut would leave them."""

    data: bytes = b""
    synced: bytes = b""


@dataclass
class _Folder:
    """The durable names, and the later changes of names, in order."""

    durable: dict[str, _Content] = field(default_factory=dict)
    pending: list[tuple[str, _Content | None]] = field(default_factory=list)


class PowerCutDisk:
    """Works on real files in an empty folder; `cut` leaves them as a power cut would.

    Unsynced content is gone, torn or there; unsynced names are as before or as after, in the order
    of the changes. `luck` decides, so that a seed repeats a cut.
    """

    def __init__(self, disk: Disk, luck: random.Random) -> None:
        self._disk = disk
        self._luck = luck
        self._contents: dict[Path, _Content] = {}
        self._folders: dict[Path, _Folder] = {}

    def read(self, path: Path, most: int) -> bytes:
        return self._disk.read(path, most)

    def write(self, path: Path, data: bytes, mode: int) -> None:
        self._disk.write(path, data, mode)
        self._rename(path, _Content(data))

    def append(self, path: Path, data: bytes, mode: int, *, sync: bool) -> None:
        content = self._content(path)
        self._disk.append(path, data, mode, sync=False)
        content.data += data
        if sync:
            self.sync(path)

    def sync(self, path: Path) -> None:
        content = self._content(path)
        content.synced = content.data

    def replace(self, source: Path, target: Path) -> None:
        content = self._content(source)
        self._disk.replace(source, target)
        self._rename(source, None)
        self._rename(target, content)

    def link(self, source: Path, target: Path) -> None:
        content = self._content(source)
        self._disk.link(source, target)
        self._rename(target, content)

    def remove(self, path: Path) -> None:
        self._disk.remove(path)
        self._rename(path, None)

    def sync_folder(self, folder: Path) -> None:
        names = self._folder(folder)
        for name, content in names.pending:
            _apply(names.durable, name, content)
        names.pending.clear()

    def cut(self) -> None:
        """Cut the power: the real files become what would be found afterwards."""
        for path, folder in self._folders.items():
            names = dict(folder.durable)
            survived = self._luck.randint(0, len(folder.pending))
            for name, content in folder.pending[:survived]:
                _apply(names, name, content)
            touched = {*folder.durable, *(name for name, _ in folder.pending)}
            for name in touched:
                self._leave(path / name, names.get(name))
        self._contents.clear()
        self._folders.clear()

    def _leave(self, path: Path, content: _Content | None) -> None:
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(self._survived(content))

    def _survived(self, content: _Content) -> bytes:
        if content.data == content.synced:
            return content.synced
        if content.data.startswith(content.synced):
            new = content.data[len(content.synced) :]
            return content.synced + new[: self._luck.randint(0, len(new))]
        return self._luck.choice([content.synced, b"", b"\0" * len(content.data)])

    def _folder(self, path: Path) -> _Folder:
        return self._folders.setdefault(path, _Folder())

    def _content(self, path: Path) -> _Content:
        if path not in self._contents:
            self._rename(path, _Content())
        return self._contents[path]

    def _rename(self, path: Path, content: _Content | None) -> None:
        if content is None:
            self._contents.pop(path, None)
        else:
            self._contents[path] = content
        self._folder(path.parent).pending.append((path.name, content))


def _apply(names: dict[str, _Content], name: str, content: _Content | None) -> None:
    if content is None:
        names.pop(name, None)
    else:
        names[name] = content
