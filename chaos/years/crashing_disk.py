"""The disk of one run of the bot: the process crashes at a step of it, or the power is cut."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ollim_bot.kernel.store.files import OsDisk


class ProcessKilled(BaseException):
    """Stands for `kill -9`. A `BaseException`, so that no handler of the bot catches it."""


@dataclass(frozen=True, slots=True)
class _NameChange:
    """A change of a folder entry that is not synced yet.

    `before` is the previous content of `path`, and `source` the path that it was renamed from.
    """

    path: Path
    before: bytes | None
    source: Path | None = None


class CrashingDisk(OsDisk):
    """Real files. A sync is only noted, so that `cut_power` can undo what was not synced.

    `steps_until_crash` counts down with each change; None if no crash is planned.
    """

    def __init__(self, rng: random.Random) -> None:
        self.crashed = asyncio.Event()
        self.steps_until_crash: int | None = None
        self._rng = rng
        # The number of synced bytes of each file that is not completely synced.
        self._synced_sizes: dict[Path, int] = {}
        self._unsynced_changes: dict[Path, list[_NameChange]] = {}

    @property
    def has_crashed(self) -> bool:
        return self.crashed.is_set()

    def crash(self) -> None:
        self.crashed.set()

    def raise_if_crashed(self) -> None:
        """Raise `ProcessKilled` in tasks that still run after the crash."""
        if self.has_crashed:
            raise ProcessKilled

    def read(self, path: Path, most: int) -> bytes:
        self.raise_if_crashed()
        return super().read(path, most)

    def write(self, path: Path, data: bytes, mode: int) -> None:
        self.count_step()
        super().write(path, data, mode)
        self._synced_sizes[path] = 0

    def append(self, path: Path, data: bytes, mode: int, *, sync: bool) -> None:
        self.count_step()
        is_new, size = not path.exists(), path.stat().st_size if path.exists() else 0
        super().append(path, data, mode, sync=False)
        if is_new:
            self._note_change(_NameChange(path, None))
        if sync:
            self._synced_sizes.pop(path, None)
        else:
            self._synced_sizes.setdefault(path, size)

    def sync(self, path: Path) -> None:
        self.count_step()
        self._synced_sizes.pop(path, None)

    def replace(self, source: Path, target: Path) -> None:
        self.count_step()
        before = _content(target)
        super().replace(source, target)
        self._synced_sizes.pop(target, None)
        if source in self._synced_sizes:
            self._synced_sizes[target] = self._synced_sizes.pop(source)
        self._note_change(_NameChange(target, before, source))

    def link(self, source: Path, target: Path) -> None:
        self.count_step()
        super().link(source, target)
        if source in self._synced_sizes:
            self._synced_sizes[target] = self._synced_sizes[source]
        self._note_change(_NameChange(target, None))

    def remove(self, path: Path) -> None:
        self.count_step()
        before = _content(path)
        super().remove(path)
        self._synced_sizes.pop(path, None)
        self._note_change(_NameChange(path, before))

    def sync_folder(self, folder: Path) -> None:
        self.count_step()
        self._unsynced_changes.pop(folder, None)

    def cut_power(self) -> None:
        """Crash, truncate unsynced data at a random place, and undo some unsynced name changes.

        In each folder a random number of the first changes is kept, and the later ones are undone.
        """
        self.crash()
        for path, synced in self._synced_sizes.items():
            data = _content(path)
            if data is not None:
                path.write_bytes(data[: self._rng.randint(synced, max(synced, len(data)))])
        for changes in self._unsynced_changes.values():
            for change in reversed(changes[self._rng.randint(0, len(changes)) :]):
                _undo(change)

    def _note_change(self, change: _NameChange) -> None:
        self._unsynced_changes.setdefault(change.path.parent, []).append(change)

    def count_step(self) -> None:
        """Count one change; raises `ProcessKilled` at the planned crash and after it."""
        if self.steps_until_crash is not None:
            self.steps_until_crash -= 1
            if self.steps_until_crash < 0:
                self.crash()
        self.raise_if_crashed()


def _undo(change: _NameChange) -> None:
    if change.source is not None:
        with suppress(FileNotFoundError):
            os.replace(change.path, change.source)
    if change.before is None:
        change.path.unlink(missing_ok=True)
    else:
        change.path.write_bytes(change.before)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
