"""The fault injection of `make chaos`: crashes, power cuts and errors happen as injected."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from chaos.crash_points import CRASH_POINTS, WritePhase, crash_point, labels_without_crash_point
from chaos.fault_control import ANY_POINT, CRASH, POWER_CUT, FaultControl, InjectedFault
from chaos.fault_injection import FaultInjector

ROOT = Path(__file__).resolve().parents[2]
PROGRAM_START = """
import os, sys
from pathlib import Path
from chaos.fault_control import FaultControl
from chaos.fault_injection import FaultInjector
from ollim_bot.kernel.store.files import OsDisk, append_line, remove_durably, write_atomically
data = Path(sys.argv[1])
FaultInjector(data, FaultControl(data.parent / "faults")).install()
"""
ATOMIC_WRITE = 'write_atomically(OsDisk(), data / "state" / "fork.json", b"new" * 99, 0o600)'
UNSYNCED_WRITE = 'OsDisk().write(data / "state" / "fork.json", b"new" * 99, 0o600)'
SYNCED_APPEND = (
    'append_line(OsDisk(), data / "state" / "session_history.jsonl", b"second line\\n", sync=True)'
)
UNSYNCED_APPEND = (
    'append_line(OsDisk(), data / "state" / "session_history.jsonl", b"second line\\n", sync=False)'
)
REMOVAL = 'remove_durably(OsDisk(), data / "reminders" / "tea.md")'
TWO_COMMITS = """
import sqlite3
database = sqlite3.connect(data / "state" / "ollim.db", isolation_level=None)
database.execute("PRAGMA journal_mode=WAL")
for word in ("first", "second"):
    database.execute("BEGIN IMMEDIATE")
    database.execute("CREATE TABLE IF NOT EXISTS words (word)")
    database.execute("INSERT INTO words VALUES (?)", (word,))
    database.execute("COMMIT")
"""
LAST_REMOVAL = 'os.unlink(data / "reminders" / "milk.md")'
SEEDS = range(6)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    for folder in ("state", "reminders"):
        (data / folder).mkdir(parents=True)
    (data / "state" / "fork.json").write_text("old")
    (data / "state" / "session_history.jsonl").write_text("first line\n")
    for name in ("tea", "milk"):
        (data / "reminders" / f"{name}.md").write_text(name)
    return data


def after_crash(data: Path, fault: InjectedFault, *changes: str) -> FaultControl:
    """Make the changes in a process that the fault has to kill, and return its reports."""
    control = FaultControl(data.parent / "faults")
    control.inject(fault)
    program = "\n".join((PROGRAM_START, *changes))
    process = subprocess.run(
        [sys.executable, "-c", program, str(data)],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        timeout=60,
        check=False,
        capture_output=True,
        text=True,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert not control.is_pending
    return control


@pytest.mark.real_process
@pytest.mark.parametrize(
    ("point", "change", "memory", "ledger", "tea"),
    [
        ("in the middle of the draft: fork.json", ATOMIC_WRITE, "old", "first line\n", True),
        ("before the folder's sync: fork.json", ATOMIC_WRITE, "new" * 99, "first line\n", True),
        (
            "in the middle of the writing: session_history.jsonl",
            SYNCED_APPEND,
            "old",
            "first line\nsecond",
            True,
        ),
        ("before the removal: reminders", REMOVAL, "old", "first line\n", True),
        ("before the folder's sync: reminders", REMOVAL, "old", "first line\n", False),
    ],
)
def test_a_process_crashes_at_the_given_crash_point(
    data: Path, point: str, change: str, memory: str, ledger: str, *, tea: bool
) -> None:
    assert point in CRASH_POINTS
    control = after_crash(data, InjectedFault(CRASH, point), change)
    assert control.new_reports() == [(CRASH, point)]
    assert (data / "state" / "fork.json").read_text() == memory
    assert (data / "state" / "session_history.jsonl").read_text() == ledger
    assert (data / "reminders" / "tea.md").exists() is tea


@pytest.mark.real_process
@pytest.mark.parametrize(
    ("point", "words"),
    [("before the commit: ollim.db", []), ("after the commit: ollim.db", [("first",)])],
)
def test_a_process_crashes_before_or_after_a_commit(
    data: Path, point: str, words: list[tuple[str]]
) -> None:
    assert point in CRASH_POINTS
    control = after_crash(data, InjectedFault(CRASH, point), TWO_COMMITS)
    assert control.new_reports() == [(CRASH, point)]
    with closing(sqlite3.connect(data / "state" / "ollim.db")) as database:
        tables = database.execute("SELECT name FROM sqlite_master").fetchall()
        assert (database.execute("SELECT word FROM words").fetchall() if tables else []) == words


@pytest.mark.parametrize(
    ("error", "statement", "code"),
    [("EROFS", "BEGIN IMMEDIATE", "READONLY"), ("ENOSPC", "COMMIT", "FULL")],
)
def test_an_error_can_be_injected_into_the_database(
    data: Path, error: str, statement: str, code: str
) -> None:
    control = FaultControl(data.parent / "faults")
    injector = FaultInjector(data, control)
    with closing(injector.connect(data / "state" / "ollim.db", isolation_level=None)) as database:
        database.execute("CREATE TABLE words (word)")
        control.inject(InjectedFault(error, label="ollim.db"))
        for each in ("BEGIN IMMEDIATE", "INSERT INTO words VALUES ('first')", "COMMIT"):
            if each == statement:
                with pytest.raises(sqlite3.OperationalError) as refused:
                    database.execute(each)
                break
            database.execute(each)
        assert refused.value.sqlite_errorcode == getattr(sqlite3, f"SQLITE_{code}")
        control.withdraw()


@pytest.mark.real_process
@pytest.mark.parametrize("seed", SEEDS[:2])
def test_what_was_synced_survives_a_power_cut(data: Path, seed: int) -> None:
    after_crash(
        data,
        InjectedFault(POWER_CUT, "before the removal: reminders", seed=seed),
        ATOMIC_WRITE,
        SYNCED_APPEND,
        REMOVAL,
        LAST_REMOVAL,
    )
    assert not (data / "reminders" / "milk.md").exists() or (data / "reminders" / "tea.md").exists()
    assert (data / "state" / "fork.json").read_text() == "new" * 99
    assert (data / "state" / "session_history.jsonl").read_text() == "first line\nsecond line\n"


@pytest.mark.real_process
def test_a_power_cut_takes_what_was_not_synced(data: Path) -> None:
    """The seed decides how much of it."""
    ledgers, reminders = set(), set()
    for seed in SEEDS[:4]:
        memory = data / "state" / "fork.json"
        memory.write_text("old")
        (data / "state" / "session_history.jsonl").write_text("first line\n")
        (data / "reminders" / "tea.md").write_text("tea")
        unsynced_write = UNSYNCED_WRITE.replace("fork", "config")
        (data / "state" / "config.json").unlink(missing_ok=True)
        fault = InjectedFault(POWER_CUT, "before the folder's sync: reminders", seed=seed)
        after_crash(data, fault, UNSYNCED_APPEND, unsynced_write, REMOVAL)
        assert memory.read_text() == "old"
        ledgers.add((data / "state" / "session_history.jsonl").read_text())
        reminders.add((data / "reminders" / "tea.md").exists())
        config = data / "state" / "config.json"
        assert not config.exists() or len(config.read_text()) <= len("new" * 99)
    assert "first line\n" in ledgers
    assert all("first line\nsecond line\n".startswith(each) for each in ledgers)
    assert reminders == {True, False}


@pytest.mark.real_process
def test_a_power_cut_may_undo_the_replacement_of_a_file(data: Path) -> None:
    kept = set()
    for seed in SEEDS:
        (data / "state" / "fork.json").write_text("old")
        fault = InjectedFault(POWER_CUT, "before the folder's sync: fork.json", seed=seed)
        after_crash(data, fault, ATOMIC_WRITE)
        kept.add((data / "state" / "fork.json").read_text())
    assert kept == {"old", "new" * 99}


@pytest.mark.real_process
def test_a_process_can_crash_at_the_next_crash_point(data: Path) -> None:
    control = after_crash(data, InjectedFault(CRASH, ANY_POINT), SYNCED_APPEND, ATOMIC_WRITE)
    assert control.new_reports() == [(CRASH, "before the writing: session_history.jsonl")]


@pytest.mark.parametrize(
    ("error", "refused", "allowed"),
    [
        ("EIO", ("sync",), ("create", "write", "rename", "remove")),
        ("EROFS", ("create", "rename", "remove", "mkdir"), ("write", "sync")),
        ("ENOSPC", ("create", "write", "mkdir"), ("rename", "remove", "sync")),
    ],
)
def test_an_error_is_injected_only_into_the_calls_it_applies_to(
    data: Path, error: str, refused: tuple[str, ...], allowed: tuple[str, ...]
) -> None:
    control = FaultControl(data.parent / "faults")
    injector = FaultInjector(data, control)
    descriptor = injector.open(data / "state" / "new.json", os.O_WRONLY | os.O_CREAT, 0o600)
    other = data / "state" / "other"
    calls: dict[str, Callable[[], object]] = {
        "create": lambda: injector.close(injector.open(other, os.O_WRONLY | os.O_CREAT, 0o600)),
        "write": lambda: injector.write(descriptor, b"0123456789"),
        "sync": lambda: injector.fsync(descriptor),
        "rename": lambda: injector.replace(data / "reminders" / "tea.md", data / "reminders" / "t"),
        "remove": lambda: injector.unlink(data / "reminders" / "milk.md"),
        "mkdir": lambda: injector.mkdir(data / "state" / "undo"),
    }
    control.inject(InjectedFault(error))
    for name in refused:
        with pytest.raises(OSError, match=os.strerror(getattr(errno, error))):
            calls[name]()
    for name in allowed:
        calls[name]()
    control.withdraw()
    for name in {*refused} - {*allowed}:
        calls[name]()
    injector.close(descriptor)


def test_an_error_can_be_for_one_file(data: Path) -> None:
    control = FaultControl(data.parent / "faults")
    injector = FaultInjector(data, control)
    control.inject(InjectedFault("ENOSPC", label="session_history.jsonl"))
    for name, is_met in (("fork.json", False), ("session_history.jsonl", True)):
        descriptor = injector.open(data / "state" / name, os.O_WRONLY | os.O_APPEND)
        if is_met:
            with pytest.raises(OSError, match="No space"):
                injector.write(descriptor, b"0123456789")
        else:
            assert injector.write(descriptor, b"0123456789") == 10
        injector.close(descriptor)


def test_files_outside_of_the_data_and_git_files_get_no_errors(data: Path, tmp_path: Path) -> None:
    control = FaultControl(data.parent / "faults")
    injector = FaultInjector(data, control)
    control.inject(InjectedFault("EROFS"))
    for path in (tmp_path / "free", data / ".git" / "index"):
        path.parent.mkdir(exist_ok=True)
        injector.close(injector.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        injector.unlink(path)
    assert control.new_reports() == []


def test_a_crash_point_names_a_file_of_the_state_or_the_folder_of_a_job() -> None:
    assert (
        crash_point(WritePhase.BEFORE_SYNC, Path("state/session_history.jsonl"))
        == "before the sync: session_history.jsonl"
    )
    assert (
        crash_point(WritePhase.MID_WRITE, Path("state/.fork.json.tmp"))
        == "in the middle of the draft: fork.json"
    )
    assert (
        crash_point(WritePhase.BEFORE_REMOVAL, Path("reminders/tea.md"))
        == "before the removal: reminders"
    )


def test_a_written_file_without_a_crash_point_is_reported() -> None:
    assert labels_without_crash_point(
        ["before the sync: session_history.jsonl", "before the draft: new.json"]
    ) == {"new.json"}
