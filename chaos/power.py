"""A power cut: what was written and not synced is undone, as far as chance will have it."""

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

# The system's own, whatever has taken their places by the time of a cut.
_link, _rename, _unlink = os.link, os.rename, os.unlink


@dataclass
class Unsynced:
    """What a power cut could take.

    `lengths` has, for the number of each file with bytes that were not synced, how many were.
    `names` has, for each folder, how to undo the changes of names since its last sync, in order.
    What a name stood for is kept in `attic`, which is on the same file system.
    """

    attic: Path
    lengths: dict[int, int] = field(default_factory=dict)
    names: dict[Path, list[Undo]] = field(default_factory=lambda: defaultdict(list))
    _folders: set[Path] = field(default_factory=set)
    _kept: dict[Path, list[Path]] = field(default_factory=lambda: defaultdict(list))
    _numbers: count[int] = field(default_factory=count)

    def created(self, path: Path) -> None:
        self.names[path.parent].append(lambda: _unlink(path))

    def written(self, path: Path, file_number: int, length_before: int) -> None:
        self.lengths.setdefault(file_number, length_before)
        self._folders.add(path.parent)

    def shortened(self, file_number: int, length: int) -> None:
        if length <= self.lengths.get(file_number, length):
            self.lengths.pop(file_number, None)

    def synced(self, file_number: int) -> None:
        self.lengths.pop(file_number, None)

    def keep(self, path: Path) -> Path | None:
        """To be called before a name is taken away from a file."""
        kept = self.attic / f"{os.getpid()}-{next(self._numbers)}"
        try:
            _link(path, kept, follow_symlinks=False)
        except FileNotFoundError:
            return None
        self._kept[path.parent].append(kept)
        return kept

    def renamed(self, source: Path, target: Path, kept: Path | None) -> None:
        def undo() -> None:
            _rename(target, source)
            if kept is not None:
                _rename(kept, target)

        self.names[target.parent].append(undo)

    def removed(self, path: Path, kept: Path | None) -> None:
        if kept is not None:
            self.names[path.parent].append(lambda: _rename(kept, path))

    def folder_synced(self, folder: Path) -> None:
        self.names.pop(folder, None)
        for kept in self._kept.pop(folder, ()):
            # Who has no name left can be another file tomorrow, under the same number.
            if kept.stat().st_nlink == 1:
                self.lengths.pop(kept.stat().st_ino, None)
            _unlink(kept)

    def cut(self, luck: random.Random) -> None:
        """Of a folder's changes the first ones may survive; of a file's new bytes, too."""
        for undos in self.names.values():
            for undo in reversed(undos[_survive(luck, 0, len(undos)) :]):
                with suppress(FileNotFoundError):  # another process was faster
                    undo()
        for folder in self._folders:
            for path in folder.iterdir():
                self._tear(path, luck)

    def _tear(self, path: Path, luck: random.Random) -> None:
        status = path.lstat()
        synced = self.lengths.get(status.st_ino, status.st_size)
        if synced < status.st_size:
            os.truncate(path, _survive(luck, synced, status.st_size))


def _survive(luck: random.Random, least: int, most: int) -> int:
    return luck.choice((least, luck.randint(least, most)))
