"""How busy the processors of this machine are, with all that runs on it, in the way of Linux."""

from __future__ import annotations

import time
from pathlib import Path

# In seconds, and the share of them: who was less busy for so long has room for more.
_LOOK_EVERY, _HAS_ROOM = 5.0, 0.7


class Processors:
    """How busy they are from now on."""

    def __init__(self) -> None:
        self._begin = self._last = _ticks()
        self._looked = time.monotonic()

    def words(self) -> str:
        busy = _share(self._begin, _ticks())
        return "" if busy is None else f", processors {busy:.0%} busy"

    def have_room(self) -> bool:
        """Whether they had little to do since the last look, which is some seconds ago."""
        if time.monotonic() - self._looked < _LOOK_EVERY:
            return False
        before, self._last, self._looked = self._last, _ticks(), time.monotonic()
        busy = _share(before, self._last)
        return busy is not None and busy < _HAS_ROOM


def _ticks() -> tuple[int, int]:
    """The ticks in which the processors had nothing to do or waited for a disk, and all ticks."""
    try:
        ticks = [int(each) for each in Path("/proc/stat").read_text().split()[1:9]]
    except OSError:
        return 0, 0
    return ticks[3] + ticks[4], sum(ticks)


def _share(begin: tuple[int, int], end: tuple[int, int]) -> float | None:
    """The share of the ticks in between in which they were busy."""
    idle, total = end[0] - begin[0], end[1] - begin[1]
    return 1 - idle / total if total else None
