"""Run as a program: background runs that ping, at the same moment as those of another process."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.background.scene import WatchedEngine, ping, routine, scene
from tests.storage.places import DataDirectory, QuickDisk

from ollim_bot.domain.jobs import ReportMode
from ollim_bot.stores import Stores


async def _run(stores: Stores, root: Path, name: str) -> str:
    async with scene(WatchedEngine().then(ping(name)), root=root, stores=stores) as stage:
        job = routine(name, description=name, update_main_session=ReportMode.FREELY)
        return (await stage.run(job)).value


def main(root: str, *_: str) -> None:
    stores = DataDirectory(Path(root)).open_all(QuickDisk())
    print("ready", flush=True)
    for line in sys.stdin:
        print(asyncio.run(_run(stores, Path(root), line.strip())), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
