"""A program that runs one background run in each round, as soon as it may; each run pings."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from devtools.doubles.clock import ManualClock
from tests.kernel.conversation.background.scene import (
    NOW,
    WatchedEngine,
    background_scene,
    ping,
    routine,
)
from tests.kernel.store.files.data_directory import DataDirectory, QuickDisk
from tests.stores import Stores

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.store import DatabaseStore
from ollim_bot.kernel.values.jobs import ReportMode


async def _run(stores: Stores, root: Path, name: str) -> str:
    paths = DataPaths(root)
    database = open_database(paths, lambda: NOW, is_holder=False, report=lambda _: None)
    store, engine = DatabaseStore(database, ManualClock(NOW)), WatchedEngine().then(ping(name))
    async with background_scene(engine, root=root, stores=stores, seen=lambda _: store) as scene:
        job = routine(name, description=name, update_main_session=ReportMode.FREELY)
        state = await scene.run(job)
    await store.close()
    return state.value


def main(root: Path, name: str, rounds: int) -> None:
    stores = DataDirectory(root).open(QuickDisk())
    for number in range(rounds):
        while not (root.parent / f"go-{number}").exists():
            time.sleep(0.001)
        print(asyncio.run(_run(stores, root, f"{name}-{number}")), flush=True)
