"""Ten thousand new job files, seen from outside: the start, a job due soon, and one edit."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import tarfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.bars import Bar
from bench.fixtures import BOT, python_process, write_reminders, write_routines
from bench.measure import Result

MANY = 10_000
ROUNDS = 3
DUE_AFTER = timedelta(seconds=8)
LIMIT = 120.0
ROOT = Path(__file__).parents[1]
# Their sources are taken from the history; where it lacks one, its rows are left out.
FORMER = {"version 0.6": "0d1ae473", "version 0.12": "0347e24a"}


class Seen(NamedTuple):
    """Seconds from the start of the program, from a due moment, and from an edit."""

    armed: float
    late: float
    edited: float


def measure(folder: Path) -> list[Result]:
    sources = {"now": ROOT / "src"}
    for version, commit in FORMER.items():
        source = folder / version.replace(" ", "-")
        if _is_taken_out(commit, source):
            sources[version] = source / "src"
    rounds = [
        {name: _seen(folder / f"{name}-{number}", source) for name, source in sources.items()}
        for number in range(ROUNDS)
    ]
    return [row for version in sources if version != "now" for row in _rows(version, rounds)]


def _rows(version: str, rounds: list[dict[str, Seen]]) -> list[Result]:
    def row(what: str, of: Callable[[Seen], float]) -> Result:
        now = median(of(each["now"]) for each in rounds)
        then = median(of(each[version]) for each in rounds)
        return Result(f"{MANY} new files, {what}, to {version}", now, version, then, Bar.MANY_JOBS)

    return [
        row("program until armed", lambda seen: seen.armed),
        row(f"due after {DUE_AFTER.seconds} s, late by", lambda seen: seen.late),
        row("edit of one until armed", lambda seen: seen.edited),
    ]


def _is_taken_out(commit: str, folder: Path) -> bool:
    """Write the source of the commit below `folder`; False if the history lacks it."""
    command = ("git", "archive", "--format=tar", commit, "src")
    found = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if found.returncode:
        return False
    with tarfile.open(fileobj=BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return True


def _seen(home: Path, source: Path) -> Seen:
    """What a start with new files shows; the edit comes while they are being committed."""
    data, soon = home / "data", datetime.now(UTC) + timedelta(days=3)
    for folder in ("routines", "reminders"):
        (data / folder).mkdir(parents=True)
    write_reminders(data / "reminders", MANY // 2, soon.year + 1)
    write_routines(data / "routines", MANY // 2, soon.isoweekday() % 7)
    due = (datetime.now(UTC) + DUE_AFTER).replace(microsecond=0)
    head = f"---\nid: soon\nrun-at: {due.isoformat()}\nplain: true\n---\n"
    (data / "reminders" / "soon.md").write_text(f"{head}Drink water.\n")
    began = time.monotonic()
    with python_process(home, BOT, {"PYTHONPATH": str(source)}) as process:
        armed = _seconds_until(lambda: _has_row(data, "roster"), began, process)
        edited = time.monotonic()
        with (data / "routines" / "plan-7.md").open("a") as file:
            file.write("And call them.\n")
        edit = _seconds_until(lambda: _has_row(data, "changed"), edited, process)
        _seconds_until(lambda: _has_row(data, "due"), began, process)
        late = (_moment(data, "due") - due).total_seconds()
    return Seen(armed, late, edit)


def _seconds_until(
    condition: Callable[[], bool], began: float, process: subprocess.Popen[bytes]
) -> float:
    while not condition():
        assert process.poll() is None, "the bot has ended"
        assert time.monotonic() - began < LIMIT, "it takes too long"
        time.sleep(0.02)
    return time.monotonic() - began


def _has_row(data: Path, state: str) -> bool:
    return _row(data, state) is not None


def _moment(data: Path, state: str) -> datetime:
    row = _row(data, state)
    assert row is not None
    return datetime.fromisoformat(str(json.loads(row)["ts"]))


def _row(data: Path, state: str) -> str | None:
    """The newest row of this state in the ledger, which was a file of lines once."""
    lines, database = data / "state" / "ledger.jsonl", data / "state" / "ollim.db"
    if lines.exists():
        found = [line for line in lines.read_text().splitlines() if f'"state": "{state}"' in line]
        return found[-1] if found else None
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            query = "SELECT value FROM ledger WHERE state = ? ORDER BY seq DESC LIMIT 1"
            row = connection.execute(query, (state,)).fetchone()
            return None if row is None else str(row[0])
    except sqlite3.Error:  # it is not there yet, or is being written
        return None
