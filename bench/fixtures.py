"""Data directories and processes to measure."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from devtools.doubles.immediate_store import ImmediateStore
from devtools.doubles.journal import RecordingJournal
from tests.stores import Stores

from bench.measure import Action
from ollim_bot.paths import DataPaths
from ollim_bot.store.data_directory import prepare_data_directory
from ollim_bot.store.database import Database
from ollim_bot.store.file_store import StoreProblem
from ollim_bot.store.job_files import open_repositories
from ollim_bot.store.opening import open_database

NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
BOT = ("-m", "ollim_bot")


def prepared(root: Path) -> tuple[DataPaths, Stores]:
    paths, database = DataPaths(root), new_database(root)
    return paths, Stores(ImmediateStore(database), open_repositories(paths, RecordingJournal()))


def new_database(root: Path) -> Database:
    """Prepare a data directory, and open its database."""
    paths = DataPaths(root)
    prepare_data_directory(paths)
    return open_database(paths, lambda: NOW, is_holder=True, report=_report)


def _report(problem: StoreProblem) -> None:
    raise AssertionError(str(problem))


def write_reminders(folder: Path, count: int, year: int = 2027) -> None:
    for number in range(count):
        text = (
            f"---\nid: r{number}\nrun-at: {year}-01-{number % 28 + 1:02}T09:00:00+00:00\n"
            f"description: Call number {number}\n---\nCall them and ask.\n"
        )
        (folder / f"call-{number}.md").write_text(text)


def write_routines(folder: Path, count: int, weekday: int) -> None:
    for number in range(count):
        text = (
            f'---\nid: p{number}\ncron: "{number % 60} {number % 24} * * {weekday}"\n'
            f"description: Plan number {number}\n---\nPlan it.\n"
        )
        (folder / f"plan-{number}.md").write_text(text)


def write_daily(folder: Path, count: int, now: datetime) -> None:
    """Routines that come once a day, spread over it; none in the quarter of an hour after now."""
    start = now.hour * 60 + now.minute + 15
    for number in range(count):
        minute = (start + number * (24 * 60 - 15) // count) % (24 * 60)
        text = (
            f'---\nid: p{number}\ncron: "{minute % 60} {minute // 60} * * *"\nplain: true\n'
            f"description: Plan number {number}\n---\nPlan it.\n"
        )
        (folder / f"plan-{number}.md").write_text(text)


def running(command: Sequence[str], home: Path) -> Action:
    def run() -> None:
        subprocess.run(
            command, env=environ_of(home), cwd=home, check=True, stdout=subprocess.DEVNULL
        )

    return run


def environ_of(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "OLLIM_DATA_DIR": str(home / "data"),
        "OLLIM_TIMEZONE": "UTC",
    }


@contextmanager
def python_process(
    folder: Path, command: Sequence[str], settings: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A Python program in its own home. The bot uses its built-in model there."""
    folder.mkdir(parents=True, exist_ok=True)
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "HOME": str(folder),
        "OLLIM_DATA_DIR": str(folder / "data"),
        "OLLIM_TIMEZONE": "UTC",
        "OLLIM_WEB_PORT": "0",
        **(settings or {}),
    }
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, *command], cwd=folder, env=environ, stdout=quiet, stderr=quiet
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def resident_bytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return float(resident.split()[1]) * 1024


def cpu_seconds(pid: int) -> float:
    """The processor time of our own process, without the engine's."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
