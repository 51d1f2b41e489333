"""A power cut: what was written and not synced is undone, all of it or a random part."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

Undo = Callable[[], None]

# The real calls: the fault injector replaces those of the module `os`.
_link, _rename, _unlink = os.link, os.rename, os.unlink


@dataclass
class UnsyncedChanges:
    """What a power cut can take.

    `synced_lengths` has, for the inode of each file with unsynced bytes, how many bytes are synced.
    `name_changes` has, for each folder, the undos of its creations, renames and removals since its
    last sync, in order. A file whose name is taken away is kept in the folder `backups`, which is
    on the same file system.
    """

    backups: Path
    synced_lengths: dict[int, int] = field(default_factory=dict)
    name_changes: dict[Path, list[Undo]] = field(default_factory=lambda: defaultdict(list))
    _written_folders: set[Path] = field(default_factory=set)
    _backups_of: dict[Path, list[Path]] = field(default_factory=lambda: defaultdict(list))
    _numbers: count[int] = field(default_factory=count)

    def created(self, path: Path) -> None:
        self.name_changes[path.parent].append(lambda: _unlink(path))

    def written(self, path: Path, inode: int, length_before: int) -> None:
        self.synced_lengths.setdefault(inode, length_before)
        self._written_folders.add(path.parent)

    def shortened(self, inode: int, length: int) -> None:
        if length <= self.synced_lengths.get(inode, length):
            self.synced_lengths.pop(inode, None)

    def synced(self, inode: int) -> None:
        self.synced_lengths.pop(inode, None)

    def back_up(self, path: Path) -> Path | None:
        """Has to be called before a name is taken away from a file."""
        backup = self.backups / f"{os.getpid()}-{next(self._numbers)}"
        try:
            _link(path, backup, follow_symlinks=False)
        except FileNotFoundError:
            return None
        self._backups_of[path.parent].append(backup)
        return backup

    def renamed(self, source: Path, target: Path, backup: Path | None) -> None:
        def undo() -> None:
            _rename(target, source)
            if backup is not None:
                _rename(backup, target)

        self.name_changes[target.parent].append(undo)

    def removed(self, path: Path, backup: Path | None) -> None:
        if backup is not None:
            self.name_changes[path.parent].append(lambda: _rename(backup, path))

    def folder_synced(self, folder: Path) -> None:
        self.name_changes.pop(folder, None)
        for backup in self._backups_of.pop(folder, ()):
            # A new file can get the inode of a file that has no name left.
            if backup.stat().st_nlink == 1:
                self.synced_lengths.pop(backup.stat().st_ino, None)
            _unlink(backup)

    def cut_power(self, rng: random.Random) -> None:
        """Undo the latest name changes of each folder, and cut the newest bytes off each file."""
        for undos in self.name_changes.values():
            for undo in reversed(undos[_survivors(rng, 0, len(undos)) :]):
                with suppress(FileNotFoundError):  # another process was faster
                    undo()
        for folder in self._written_folders:
            for path in folder.iterdir():
                self._truncate(path, rng)

    def _truncate(self, path: Path, rng: random.Random) -> None:
        status = path.lstat()
        synced = self.synced_lengths.get(status.st_ino, status.st_size)
        if synced < status.st_size:
            os.truncate(path, _survivors(rng, synced, status.st_size))


def _survivors(rng: random.Random, least: int, most: int) -> int:
    """How many changes or bytes survive: often the least possible."""
    return rng.choice((least, rng.randint(least, most)))
