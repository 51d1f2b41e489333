"""The disk of one life: the process dies at one of its steps, or the power goes."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ollim_bot.store.files import OsDisk


class Killed(BaseException):
    """Nothing of the program may catch it, as nothing catches a `kill -9`."""


@dataclass(frozen=True, slots=True)
class _Renamed:
    """A change of a name that is not surely on disk: what was there, and where it came from."""

    path: Path
    before: bytes | None
    source: Path | None = None


class MortalDisk(OsDisk):
    """Real files, which are not really synced: that is only noted, for when the power goes."""

    def __init__(self, luck: random.Random) -> None:
        self.death = asyncio.Event()
        self.dies_in: int | None = None
        self._luck = luck
        self._safe: dict[Path, int] = {}
        self._renamed: dict[Path, list[_Renamed]] = {}

    @property
    def is_dead(self) -> bool:
        return self.death.is_set()

    def die(self) -> None:
        self.death.set()

    def check(self) -> None:
        """Raises `Killed` for what is left of a life that is over."""
        if self.is_dead:
            raise Killed

    def read(self, path: Path, most: int) -> bytes:
        self.check()
        return super().read(path, most)

    def write(self, path: Path, data: bytes, mode: int) -> None:
        self.step()
        super().write(path, data, mode)
        self._safe[path] = 0

    def append(self, path: Path, data: bytes, mode: int, *, sync: bool) -> None:
        self.step()
        is_new, size = not path.exists(), path.stat().st_size if path.exists() else 0
        super().append(path, data, mode, sync=False)
        if is_new:
            self._note(_Renamed(path, None))
        if sync:
            self._safe.pop(path, None)
        else:
            self._safe.setdefault(path, size)

    def sync(self, path: Path) -> None:
        self.step()
        self._safe.pop(path, None)

    def replace(self, source: Path, target: Path) -> None:
        self.step()
        before = _content(target)
        super().replace(source, target)
        self._safe.pop(target, None)
        if source in self._safe:
            self._safe[target] = self._safe.pop(source)
        self._note(_Renamed(target, before, source))

    def link(self, source: Path, target: Path) -> None:
        self.step()
        super().link(source, target)
        if source in self._safe:
            self._safe[target] = self._safe[source]
        self._note(_Renamed(target, None))

    def remove(self, path: Path) -> None:
        self.step()
        before = _content(path)
        super().remove(path)
        self._safe.pop(path, None)
        self._note(_Renamed(path, before))

    def sync_folder(self, folder: Path) -> None:
        self.step()
        self._renamed.pop(folder, None)

    def cut(self) -> None:
        """The power goes: names are as before or as after, and what was not synced is torn."""
        self.die()
        for path, safe in self._safe.items():
            data = _content(path)
            if data is not None:
                path.write_bytes(data[: self._luck.randint(safe, max(safe, len(data)))])
        for changes in self._renamed.values():
            for change in reversed(changes[self._luck.randint(0, len(changes)) :]):
                _undo(change)

    def _note(self, change: _Renamed) -> None:
        self._renamed.setdefault(change.path.parent, []).append(change)

    def step(self) -> None:
        """One step of the life; raises `Killed` at the chosen one and after it."""
        if self.dies_in is not None:
            self.dies_in -= 1
            if self.dies_in < 0:
                self.die()
        self.check()


def _undo(change: _Renamed) -> None:
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
