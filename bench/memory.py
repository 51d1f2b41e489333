"""What the idle bot keeps in memory, and whether a year of work leaves something there."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.stores import Stores

from bench.bare_imports import READY
from bench.bars import Bar
from bench.fixtures import BOT, prepared, python_process, resident_bytes, write_reminders
from bench.measure import Result, Unit
from ollim_bot.domain.run_history import CHECKPOINT

SOME = 1_000
MOST_BYTES = 120e6
LIMIT = 60.0
YEAR_LIMIT = 600.0
# Time for the engine and everything else at a start.
SETTLING_SECONDS = 8.0
# After two months everything that is created once exists.
SETTLED_MONTHS = 2
NO_GROWTH = 1.05


def measure(folder: Path) -> list[Result]:
    of, unit = Bar.MEMORY, Unit.BYTES
    idle, libraries = _idle(folder / "idle"), _libraries(folder / "libraries")
    months = _year(folder / "year")
    early, late = months[SETTLED_MONTHS - 1], months[-1]
    name = f"idle bot, {SOME} jobs"
    return [
        Result(name, idle, "its libraries, loaded", libraries, of, MOST_BYTES, unit=unit),
        Result(
            "after a year of 30 runs a day",
            late,
            f"after {SETTLED_MONTHS} months",
            early,
            of,
            most_times=NO_GROWTH,
            unit=unit,
        ),
    ]


def _idle(folder: Path) -> float:
    """Memory of our own process, without the engine's."""
    paths, stores = prepared(folder / "data")
    write_reminders(paths.reminders, SOME, datetime.now(UTC).year + 1)
    with python_process(folder, BOT) as process:
        _until(lambda: _is_armed(stores), process)
        time.sleep(SETTLING_SECONDS)
        return resident_bytes(process.pid)


def _libraries(folder: Path) -> float:
    with python_process(folder, ("-m", "bench.bare_imports")) as process:
        _until((folder / READY).exists, process)
        return resident_bytes(process.pid)


def _year(folder: Path) -> list[float]:
    """Resident bytes at the end of each month, measured in a separate process."""
    command = [sys.executable, "-m", "bench.year", str(folder)]
    root = Path(__file__).parents[1]
    printed = subprocess.check_output(command, cwd=root, timeout=YEAR_LIMIT)
    return [float(each) for each in json.loads(printed)]


def _until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    began = time.monotonic()
    while not condition():
        assert process.poll() is None, "the process has ended"
        assert time.monotonic() - began < LIMIT, "it takes too long"
        time.sleep(0.1)


def _is_armed(stores: Stores) -> bool:
    return any(row.state == CHECKPOINT for row in stores.ledger.tail(5).entries)
