"""How busy the processors are, and who takes their time, in the way of Linux."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
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


def processes_below(root: int) -> Iterator[int]:
    """This process and all below it; the children of each are read after it has been given."""
    tree = [root]
    for pid in tree:
        yield pid
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                tree.extend(map(int, children.read_text().split()))


def seconds_of(root: int) -> float:
    """What this process and all below it have taken, with those that have been waited for."""
    ticks = 0
    for pid in processes_below(root):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def table_of_seconds(tests: Mapping[str, float], slowest: int) -> Iterator[str]:
    """The processor seconds of each folder of tests and of the slowest tests, the most first."""
    folders: dict[str, float] = {}
    counts: Counter[str] = Counter()
    for test, seconds in tests.items():
        folder = test.partition("::")[0].rpartition("/")[0]
        folders[folder] = folders.get(folder, 0.0) + seconds
        counts[folder] += 1
    total = sum(folders.values())
    yield f"processor seconds: {total:,.0f} of {len(tests):,} tests"
    for folder, seconds in _most_first(folders):
        yield f"{seconds:9.2f} {seconds / (total or 1):6.1%} {counts[folder]:5} {folder}"
    for test, seconds in _most_first(tests)[:slowest]:
        yield f"{seconds:9.2f} {test}"


def _most_first(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda each: -each[1])
