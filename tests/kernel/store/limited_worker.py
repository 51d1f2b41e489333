"""Run as a program: commit steps until the file size limit; print each step that returned.

Argument: a data directory.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from tests.kernel.store.killed_worker import step
from tests.kernel.store.scene import StoreScene


def main() -> None:
    scene = StoreScene(Path(sys.argv[1]))
    database = scene.open()
    database.checkpoint()
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    for number in range(1, 1000):
        database.run(lambda tx, number=number: step(tx, number))  # type: ignore[misc]
        print(number, flush=True)


if __name__ == "__main__":
    main()
