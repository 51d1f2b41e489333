"""The whole program from its start until its jobs are armed, with new files and with known ones."""

from __future__ import annotations

import sqlite3
import subprocess
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from bench.fixtures import BOT, python_process, write_reminders, write_routines
from bench.measure import Result
from ollim_bot.domain.run_history import CHECKPOINT

JOBS = (50, 1_000, 10_000)
ROUNDS = 3
LIMIT = 120.0
# What has to be there before any job can be read.
BARE = ("-c", "import ollim_bot.cli.start")


def measure(folder: Path) -> list[Result]:
    rows = []
    for jobs in JOBS:
        rounds = [_starts(folder / f"{jobs}-{number}", jobs) for number in range(ROUNDS)]
        new, known, bare = (median(each) for each in zip(*rounds, strict=True))
        for files, taken in (("new", new), ("known", known)):
            row = f"program until armed, {jobs} {files} files"
            rows.append(Result(row, taken, "loading the program", bare))
    return rows


def _starts(home: Path, jobs: int) -> tuple[float, float, float]:
    """Seconds of the first start, of the next one, and of loading the program."""
    data, soon = home / "data", datetime.now(UTC) + timedelta(days=3)
    for folder in ("routines", "reminders"):
        (data / folder).mkdir(parents=True)
    # No job is due during the measurement.
    write_reminders(data / "reminders", jobs // 2, soon.year + 1)
    write_routines(data / "routines", jobs // 2, soon.isoweekday() % 7)
    new, known = _until_armed(home), _until_armed(home)
    began = time.monotonic()
    with python_process(home, BARE) as process:
        process.wait(LIMIT)
    return new, known, time.monotonic() - began


def _until_armed(home: Path) -> float:
    data = home / "data"
    before, began = _checkpoints(data), time.monotonic()
    with python_process(home, BOT) as process:
        while _checkpoints(data) == before:
            _check(process, began)
            time.sleep(0.01)
        return time.monotonic() - began


def _check(process: subprocess.Popen[bytes], began: float) -> None:
    assert process.poll() is None, "the bot has ended"
    assert time.monotonic() - began < LIMIT, "it takes too long"


def _checkpoints(data: Path) -> int:
    """The place of the newest checkpoint: a start writes one when all jobs are armed."""
    database = f"file:{data}/state/ollim.db?mode=ro"
    try:
        with closing(sqlite3.connect(database, uri=True)) as connection:
            query = "SELECT coalesce(max(seq), 0) FROM ledger WHERE state = ?"
            return int(connection.execute(query, (CHECKPOINT,)).fetchone()[0])
    except sqlite3.Error:  # it is not there yet, or is being written
        return 0
