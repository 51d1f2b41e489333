"""Journals the changes of shared files that a person made by hand."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

from ollim_bot.ports import Clock, Journal

# The program notes its own writes at once, and writes of the agent when the call has ended.
_GRACE_SECONDS = 3.0
_REMEMBERED_SECONDS = 60.0

_Fingerprint = tuple[int, int, int] | None


class HandEdits:
    """A `Journal` for the writers of the program; a change that none notes was made by hand."""

    def __init__(self, journal: Journal, root: Path, clock: Clock) -> None:
        self._journal = journal
        self._root = root
        self._clock = clock
        self._lock = threading.Lock()
        self._noted: dict[Path, tuple[float, _Fingerprint]] = {}
        self._seen: dict[Path, float] = {}

    def note(self, path: Path, message: str, source: str = "") -> None:
        place, now = _place(self._root / path), self._clock.monotonic()
        with self._lock:
            self._noted.pop(place, None)
            self._noted[place] = now, _fingerprint(place)
            while now - self._noted[oldest := next(iter(self._noted))][0] > _REMEMBERED_SECONDS:
                del self._noted[oldest]
        self._journal.note(path, message, source)

    def saw(self, paths: Iterable[Path]) -> None:
        """Remember that these files below the root were written or removed."""
        now = self._clock.monotonic()
        with self._lock:
            self._seen.update((path, now) for path in paths)

    def settle(self) -> float | None:
        """Journal the changes that no writer has noted in time.

        Returns in how many seconds the next change is old enough; None if there is none.
        """
        now = self._clock.monotonic()
        with self._lock:
            ripe = [path for path, at in self._seen.items() if now - at >= _GRACE_SECONDS]
            for path in ripe:
                del self._seen[path]
            by_hand = [path for path in ripe if not self._is_ours(path)]
            waits = [at + _GRACE_SECONDS - now for at in self._seen.values()]
        for path in by_hand:
            self._journal.note(path, f"by hand: {path.relative_to(self._root)}")
        return min(waits, default=None)

    def _is_ours(self, path: Path) -> bool:
        """Whether the file is still as a writer of the program noted it."""
        place = _place(path)
        return place in self._noted and self._noted[place][1] == _fingerprint(place)


def _place(path: Path) -> Path:
    """One path for all names of a file, with the links of its folder resolved."""
    return Path(os.path.realpath(path.parent), path.name)


def _fingerprint(path: Path) -> _Fingerprint:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ctime_ns, status.st_size, status.st_ino
