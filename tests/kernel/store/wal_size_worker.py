"""Run as a program: commit steps, print the size of the WAL after each, and kill itself.

Arguments: a data directory and the number of steps.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.kernel.store.killed_worker import step
from tests.kernel.store.scene import StoreScene


def main() -> None:
    scene, count = StoreScene(Path(sys.argv[1])), int(sys.argv[2])
    database = scene.open()
    database.checkpoint()
    wal = scene.state / "ollim.db-wal"
    for number in range(1, count + 1):
        database.run(lambda tx, number=number: step(tx, number))  # type: ignore[misc]
        print(os.stat(wal).st_size, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
