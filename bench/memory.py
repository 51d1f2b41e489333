"""What the idle bot keeps in memory, and whether a year of work leaves something there."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from devtools.doubles.immediate_store import ImmediateStore
from tests.kernel.schedule.simulated_machine import FakeAgent, SimulatedMachine
from tests.kernel.schedule.virtual_time import IdleAwareLoop
from tests.stores import on_store

from bench.fixtures import (
    BOT,
    ledger_row,
    prepared,
    python_process,
    resident_bytes,
    until,
    write_reminders,
)
from bench.measure import Bar, Result, Unit
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.connection import connect
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.jobs import JobSpec, Routine
from ollim_bot.kernel.values.ports import Disk
from ollim_bot.kernel.values.run_history import CHECKPOINT

SOME = 1_000
# A process that has loaded the bot's libraries, and waits.
LIBRARIES = """
import time, pathlib, aiohttp, claude_agent_sdk, discord
pathlib.Path("ready").touch()
time.sleep(600)
"""
MOST_BYTES = 120e6
LIMIT = 60.0
YEAR_LIMIT = 600.0
# Time for the engine and everything else at a start.
SETTLING_SECONDS = 8.0
# After two months everything that is created once exists.
SETTLED_MONTHS = 2
NO_GROWTH = 1.05


def measure(folder: Path) -> list[Result]:
    """What the idle bot keeps in memory, and whether a year of work leaves something there."""
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
    paths, _ = prepared(folder / "data")
    write_reminders(paths.reminders, SOME, datetime.now(UTC).year + 1)
    with python_process(folder, BOT) as process:
        until(lambda: ledger_row(folder / "data", CHECKPOINT) is not None, process, LIMIT)
        time.sleep(SETTLING_SECONDS)
        return resident_bytes(process.pid)


def _libraries(folder: Path) -> float:
    with python_process(folder, ("-c", LIBRARIES)) as process:
        until((folder / "ready").exists, process, LIMIT)
        return resident_bytes(process.pid)


def _year(folder: Path) -> list[float]:
    """Resident bytes at the end of each month, measured in a separate process."""
    command = [sys.executable, "-m", "bench.memory", str(folder)]
    root = Path(__file__).parents[1]
    printed = subprocess.check_output(command, cwd=root, timeout=YEAR_LIMIT)
    return [float(each) for each in json.loads(printed)]


START = datetime(2025, 1, 1, tzinfo=UTC)
DAYS = 365
MONTH = 30
DAILY = 30
AWAKE = timedelta(minutes=DAILY + 5)
# How many of the last messages the fake agent keeps, to see if a message was sent.
REMEMBERED = 500


class _UnsyncedDisk(OsDisk):
    """Never syncs, since the speed of the disk is not measured here."""

    def append(self, path: Path, data: bytes, mode: int, *, sync: bool) -> None:  # noqa: ARG002
        super().append(path, data, mode, sync=False)

    def sync(self, path: Path) -> None: ...

    def sync_folder(self, folder: Path) -> None: ...


def _unsynced_connection(path: Path) -> sqlite3.Connection:
    connection = connect(path)
    connection.execute("PRAGMA synchronous=OFF")
    return connection


class _MachineOnDisk(SimulatedMachine):
    """Uses the real stores, so that only the bot itself can hold memory."""

    def __init__(self, loop: asyncio.AbstractEventLoop, paths: DataPaths, disk: Disk) -> None:
        moments = [START + timedelta(days=day, minutes=n) for day in range(DAYS) for n in _MINUTES]
        super().__init__(loop, START - timedelta(minutes=1), moments, UTC)
        database = open_database(
            paths,
            self.clock.now,
            is_holder=True,
            report=lambda _: None,
            disk=disk,
            connection=_unsynced_connection,
        )
        self.stores = on_store(self.stores, ImmediateStore(database))
        self.agent = FakeAgent(self.stores, self.clock)

    def forget(self) -> None:
        """Drop what the fakes have recorded."""
        del self.agent.said[:-REMEMBERED]
        self.notices.told.clear()


_MINUTES = range(DAILY)


async def run_year(machine: _MachineOnDisk) -> list[float]:
    """The machine is awake while its jobs are due, and sleeps for the rest of each day."""
    machine.index.put(*(_routine(minute) for minute in _MINUTES))
    sizes: list[float] = []
    for day in range(DAYS):
        begin = START + timedelta(days=day)
        machine.sleep(begin - timedelta(seconds=30))
        await machine.run(begin + AWAKE)
        if day % MONTH == MONTH - 1:
            machine.forget()
            gc.collect()
            sizes.append(resident_bytes(os.getpid()))
    rows = await asyncio.to_thread(machine.stores.ledger.read)
    ends = sum(row.state == "done" for row in rows.entries)
    assert ends == DAYS * DAILY, f"{ends} runs"
    return sizes


def _routine(minute: int) -> Routine:
    spec = JobSpec(id=f"j{minute}", message="Plan it.", background=True)
    return Routine(spec, Cron.parse(f"{minute} 0 * * *"))


def _print_year(folder: Path) -> None:
    """Run as a program: a year of the real schedule and its files in virtual time."""
    paths = DataPaths(folder)
    prepare_data_directory(paths)
    with asyncio.Runner(loop_factory=IdleAwareLoop) as runner:
        machine = _MachineOnDisk(runner.get_loop(), paths, _UnsyncedDisk())
        print(json.dumps(runner.run(run_year(machine))))


if __name__ == "__main__":
    _print_year(Path(sys.argv[1]))
