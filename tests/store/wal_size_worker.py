"""Run as a program: commit some steps, print the size of the log after each, and die.

Arguments: a data directory and the number of steps.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.store.killed_worker import step
from tests.store.places import Place


def main() -> None:
    place, count = Place(Path(sys.argv[1])), int(sys.argv[2])
    database = place.open()
    database.checkpoint()
    wal = place.state / "ollim.db-wal"
    for number in range(1, count + 1):
        database.run(lambda tx, number=number: step(tx, number))  # type: ignore[misc]
        print(os.stat(wal).st_size, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
