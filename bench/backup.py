"""A backup of years of messages and its restore, against a plain copy of the same bytes."""

from __future__ import annotations

import os
import shutil
from itertools import count
from pathlib import Path
from random import Random

from bench.fixtures import NOW, new_database
from bench.history import LONG, fill_history
from bench.measure import Result, compare
from ollim_bot.paths import DataPaths
from ollim_bot.upkeep.backup import write_backup
from ollim_bot.upkeep.powers import take_all
from ollim_bot.upkeep.restore import restore

ROUNDS = 3
PICTURES = 500
_PICTURE_BYTES = 60_000
# Compression and two checksums against writing alone. Faster than linear growth exceeds this.
_MOST = 30


def measure(folder: Path) -> list[Result]:
    paths = DataPaths(folder / "home" / "data")
    database = new_database(paths.root)
    database.run(fill_history)
    database.checkpoint()
    database.close()
    chance = Random(1)
    for number in range(PICTURES):
        (paths.attachments / f"{number}.jpg").write_bytes(chance.randbytes(_PICTURE_BYTES))
    environment, numbers = {"HOME": str(folder / "home")}, count()
    whole = write_backup(paths, environment, lambda: NOW, target=folder / "whole.tar.gz").path

    def back_up() -> None:
        target = folder / f"{next(numbers)}.tar.gz"
        write_backup(paths, environment, lambda: NOW, target=target)
        target.unlink()

    def put_back() -> None:
        aside = restore(whole, paths, environment, NOW, take_all).aside
        assert aside is not None
        shutil.rmtree(aside)

    def copy() -> None:
        copied = folder / "copied"
        shutil.copytree(paths.root, copied, symlinks=True)
        os.sync()
        shutil.rmtree(copied)

    plain = "copying the folder, sync"
    about = f"{LONG} messages and {PICTURES} pictures"
    return [
        compare(f"backup of {about}", back_up, plain, copy, rounds=ROUNDS, most_times=_MOST),
        compare(f"restore of {about}", put_back, plain, copy, rounds=ROUNDS, most_times=_MOST),
    ]
