"""Data directories and processes to measure."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from devtools.doubles.engine import ScriptedEngine
from devtools.doubles.immediate_store import ImmediateStore
from devtools.doubles.journal import RecordingJournal
from tests.stores import Stores

from bench.measure import Action
from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.job_files import open_repositories
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.database import Database
from ollim_bot.kernel.store.file_store import StoreProblem
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.run_history import claiming_row
from ollim_bot.kernel.values.sessions import SessionChange, SessionEvent
from ollim_bot.kernel.values.usage import Price, UsageKind, UsageRow

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


async def own_share(seconds: float) -> float:
    """CPU seconds of this process per second, while nothing happens."""
    await asyncio.sleep(2.0)
    began = time.process_time()
    await asyncio.sleep(seconds)
    return (time.process_time() - began) / seconds


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def write_jobs(data: Path, count: int) -> None:
    """Half reminders, half routines, of which none is due during a measurement."""
    soon = datetime.now(UTC) + timedelta(days=3)
    for folder in ("routines", "reminders"):
        (data / folder).mkdir(parents=True, exist_ok=True)
    write_reminders(data / "reminders", count // 2, soon.year + 1)
    write_routines(data / "routines", count // 2, soon.isoweekday() % 7)


def until(
    condition: Callable[[], bool], process: subprocess.Popen[bytes], limit: float = 120.0
) -> None:
    """Wait for something that the process does."""
    began = time.monotonic()
    while not condition():
        assert process.poll() is None, "the process has ended"
        assert time.monotonic() - began < limit, "it takes too long"
        time.sleep(0.01)


def has_page(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def ledger_row(data: Path, state: str) -> tuple[int, str] | None:
    """The place and the value of the newest row of this state, as another process sees it."""
    with suppress(sqlite3.Error):  # it is not there yet, or is being written
        database = f"file:{data}/state/ollim.db?mode=ro"
        with closing(sqlite3.connect(database, uri=True)) as connection:
            query = "SELECT seq, value FROM ledger WHERE state = ? ORDER BY seq DESC LIMIT 1"
            row: tuple[int, str] | None = connection.execute(query, (state,)).fetchone()
            return row
    return None


# What a long life leaves: messages, runs, costs, sessions, open things.
LONG = 100_000
WORDS = 40
OFTEN = "often"
LEDGER_ROWS = 100_000
OPEN = 50
_ROWS_OF_RUN = 4
_RUNS = LEDGER_ROWS // _ROWS_OF_RUN
_JOBS = 30
_SESSIONS = 100
_BETWEEN = timedelta(minutes=15)


def live_long(store: Store, now: datetime) -> None:
    """As many ledger rows and messages as the contract names, and what came with them."""
    store.run(fill_history)
    store.run(lambda tx: tx.ledger.append(*_ledger(now)))
    store.run(lambda tx: tx.usage.add(*_usage(now)))
    store.run(lambda tx: tx.session_history.append(*_sessions(now)))
    store.run(lambda tx: _open_items(tx, now))


def talked(folder: Path) -> ScriptedEngine:
    """An engine with a hundred sessions."""
    engine = ScriptedEngine()
    for number in range(_SESSIONS):
        engine.store(SessionId(f"talk{number}"), folder, f"What about number {number}?")
    return engine


def open_item(number: int, now: datetime) -> DueItem:
    due = now - timedelta(minutes=number + 1)
    job = Reminder(JobSpec(id=f"open{number}", message=f"Call number {number}."), due)
    occurrence = Occurrence.scheduled(JobKind.REMINDER, job.spec.id, due)
    return DueItem.of(job, occurrence, MessageId(f"c{number}"), due)


def _ledger(now: datetime) -> Iterator[LedgerRow]:
    for number in range(_RUNS):
        yield from run_rows(f"j{number % _JOBS}", _at(number, now))


def _usage(now: datetime) -> Iterator[UsageRow]:
    for number in range(_RUNS):
        at = _at(number, now)
        run = Occurrence.scheduled(JobKind.ROUTINE, f"j{number % _JOBS}", at)
        yield UsageRow(at, UsageKind.RUN, "m", Price.LISTED, 900, 500, occurrence=run.id)


def _sessions(now: datetime) -> Iterator[SessionEvent]:
    for number in range(_RUNS):
        session = SessionId(f"s{number}")
        yield SessionEvent(session, SessionChange.ISOLATED_BG, _at(number, now))


def _open_items(tx: Transaction, now: datetime) -> None:
    for number in range(OPEN):
        tx.due_items.put(open_item(number, now))


def _at(number: int, now: datetime) -> datetime:
    return now - _BETWEEN * (_RUNS - number)


def fill_history(tx: Transaction) -> None:
    for message in _messages():
        tx.messages.add(message)


def _messages() -> Iterator[ChatMessage]:
    chance = Random(1)
    usual = [
        f"word{min(chance.randrange(1, 20_000), chance.randrange(1, 20_000))}"
        for _ in range(400_000)
    ]
    for number in range(LONG):
        start = chance.randrange(len(usual) - WORDS)
        yield message(number, " ".join(usual[start : start + WORDS]))


def message(number: int, words: str) -> ChatMessage:
    author = Author.ASSISTANT if number % 2 else Author.OWNER
    at = NOW - timedelta(minutes=LONG - number)
    text = f"{OFTEN} {words} rare{number // 100}"
    return ChatMessage(MessageId(f"m{number}"), at, author, text)


def run_rows(job_id: str, at: datetime) -> Iterator[LedgerRow]:
    one = Occurrence.scheduled(JobKind.ROUTINE, job_id, at)
    end = {"attempts": 1, "job": "Morning briefing", "report": "x" * 200, "tools": ["Read"] * 4}
    yield claiming_row(one, at)
    yield LedgerRow(at, "running", one, {"attempt": 1, "job": "Morning briefing"})
    yield LedgerRow(at, "effect", one, {"attempt": 1, "tool": "mcp__discord__ping_user"})
    yield LedgerRow(at, "done", one, end)
