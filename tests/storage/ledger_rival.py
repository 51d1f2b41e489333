"""Run as a program: claim occurrences at the same moment as another process.

Arguments: data directory, name of the process, and how many occurrences. It says `ready`, and for
each line on stdin claims them all, and says the numbers of those that it got.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.storage.places import NOW, DataDirectory, QuickDisk

from ollim_bot.domain.jobs import JobKind
from ollim_bot.domain.occurrences import Occurrence


def occurrence(number: int) -> Occurrence:
    return Occurrence.scheduled(JobKind.REMINDER, f"r{number}", NOW)


class SlowDisk(QuickDisk):
    """Leaves a rival time to come in between."""

    def append(self, path: Path, data: bytes, mode: int, *, sync: bool) -> None:
        time.sleep(0.002)
        super().append(path, data, mode, sync=sync)


def main(root: str, name: str, count: str) -> None:
    claims = DataDirectory(Path(root)).open(SlowDisk()).claims
    print("ready", flush=True)
    for _ in sys.stdin:
        numbers = range(int(count))
        won = [each for each in numbers if claims.claim(occurrence(each), NOW, {"by": name})]
        print(*won, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
