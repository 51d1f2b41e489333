"""The wounded system of `make chaos`: it dies where it is told, and forgets what was not synced."""

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
from chaos.orders import ANY, CUT, DIE, Order, Orders
from chaos.points import POINTS, Moment, point, without_point
from chaos.wounded import WoundedSystem

ROOT = Path(__file__).resolve().parents[2]
CHANGES = """
import os, sys
from pathlib import Path
from chaos.orders import Orders
from chaos.wounded import WoundedSystem
from ollim_bot.store.files import OsDisk, append_line, remove_durably, write_atomically
data = Path(sys.argv[1])
WoundedSystem(data, Orders(data.parent / "orders")).install()
"""
ATOMIC = 'write_atomically(OsDisk(), data / "state" / "fork.json", b"new" * 99, 0o600)'
CARELESS = 'OsDisk().write(data / "state" / "fork.json", b"new" * 99, 0o600)'
LINE = (
    'append_line(OsDisk(), data / "state" / "session_history.jsonl", b"second line\\n", sync=True)'
)
LAZY = (
    'append_line(OsDisk(), data / "state" / "session_history.jsonl", b"second line\\n", sync=False)'
)
GONE = 'remove_durably(OsDisk(), data / "reminders" / "tea.md")'
COMMITS = """
import sqlite3
database = sqlite3.connect(data / "state" / "ollim.db", isolation_level=None)
database.execute("PRAGMA journal_mode=WAL")
for word in ("first", "second"):
    database.execute("BEGIN IMMEDIATE")
    database.execute("CREATE TABLE IF NOT EXISTS words (word)")
    database.execute("INSERT INTO words VALUES (?)", (word,))
    database.execute("COMMIT")
"""
LAST = 'os.unlink(data / "reminders" / "milk.md")'
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


def after(data: Path, order: Order, *changes: str) -> Orders:
    """What is told when the changes were made under that order, which has to kill."""
    orders = Orders(data.parent / "orders")
    orders.give(order)
    program = "\n".join((CHANGES, *changes))
    process = subprocess.run(
        [sys.executable, "-c", program, str(data)],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        timeout=60,
        check=False,
        capture_output=True,
        text=True,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert not orders.is_given
    return orders


@pytest.mark.parametrize(
    ("moment", "change", "memory", "ledger", "tea"),
    [
        ("in the middle of the draft: fork.json", ATOMIC, "old", "first line\n", True),
        ("before the renaming: fork.json", ATOMIC, "old", "first line\n", True),
        ("before the folder's sync: fork.json", ATOMIC, "new" * 99, "first line\n", True),
        ("before the writing: session_history.jsonl", LINE, "old", "first line\n", True),
        (
            "in the middle of the writing: session_history.jsonl",
            LINE,
            "old",
            "first line\nsecond",
            True,
        ),
        ("before the removal: reminders", GONE, "old", "first line\n", True),
        ("before the folder's sync: reminders", GONE, "old", "first line\n", False),
    ],
)
def test_it_dies_where_it_is_told(
    data: Path, moment: str, change: str, memory: str, ledger: str, *, tea: bool
) -> None:
    assert moment in POINTS
    orders = after(data, Order(DIE, moment), change)
    assert orders.carried_out() == [(DIE, moment)]
    assert (data / "state" / "fork.json").read_text() == memory
    assert (data / "state" / "session_history.jsonl").read_text() == ledger
    assert (data / "reminders" / "tea.md").exists() is tea


@pytest.mark.parametrize(
    ("moment", "words"),
    [("before the commit: ollim.db", []), ("after the commit: ollim.db", [("first",)])],
)
def test_it_dies_around_a_commit(data: Path, moment: str, words: list[tuple[str]]) -> None:
    assert moment in POINTS
    orders = after(data, Order(DIE, moment), COMMITS)
    assert orders.carried_out() == [(DIE, moment)]
    with closing(sqlite3.connect(data / "state" / "ollim.db")) as database:
        tables = database.execute("SELECT name FROM sqlite_master").fetchall()
        assert (database.execute("SELECT word FROM words").fetchall() if tables else []) == words


@pytest.mark.parametrize(
    ("error", "statement", "code"),
    [("EROFS", "BEGIN IMMEDIATE", "READONLY"), ("ENOSPC", "COMMIT", "FULL")],
)
def test_an_error_meets_the_database_too(data: Path, error: str, statement: str, code: str) -> None:
    orders = Orders(data.parent / "orders")
    system = WoundedSystem(data, orders)
    with closing(system.connect(data / "state" / "ollim.db", isolation_level=None)) as database:
        database.execute("CREATE TABLE words (word)")
        orders.give(Order(error, label="ollim.db"))
        for each in ("BEGIN IMMEDIATE", "INSERT INTO words VALUES ('first')", "COMMIT"):
            if each == statement:
                with pytest.raises(sqlite3.OperationalError) as refused:
                    database.execute(each)
                break
            database.execute(each)
        assert refused.value.sqlite_errorcode == getattr(sqlite3, f"SQLITE_{code}")
        orders.withdraw()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_synced_survives_a_power_cut(data: Path, seed: int) -> None:
    after(data, Order(CUT, "before the removal: reminders", seed=seed), ATOMIC, LINE, GONE, LAST)
    assert not (data / "reminders" / "milk.md").exists() or (data / "reminders" / "tea.md").exists()
    assert (data / "state" / "fork.json").read_text() == "new" * 99
    assert (data / "state" / "session_history.jsonl").read_text() == "first line\nsecond line\n"


def test_a_power_cut_takes_what_was_not_synced(data: Path) -> None:
    """Not always all of it: that is up to chance."""
    ledgers, reminders = set(), set()
    for seed in SEEDS:
        memory = data / "state" / "fork.json"
        memory.write_text("old")
        (data / "state" / "session_history.jsonl").write_text("first line\n")
        (data / "reminders" / "tea.md").write_text("tea")
        careless = CARELESS.replace("fork", "config")
        (data / "state" / "config.json").unlink(missing_ok=True)
        order = Order(CUT, "before the folder's sync: reminders", seed=seed)
        after(data, order, LAZY, careless, GONE)
        assert memory.read_text() == "old"
        ledgers.add((data / "state" / "session_history.jsonl").read_text())
        reminders.add((data / "reminders" / "tea.md").exists())
        config = data / "state" / "config.json"
        assert not config.exists() or len(config.read_text()) <= len("new" * 99)
    assert "first line\n" in ledgers
    assert all("first line\nsecond line\n".startswith(each) for each in ledgers)
    assert reminders == {True, False}


def test_a_file_that_took_the_place_of_another_may_lose_it_again(data: Path) -> None:
    kept = set()
    for seed in SEEDS:
        (data / "state" / "fork.json").write_text("old")
        order = Order(CUT, "before the folder's sync: fork.json", seed=seed)
        after(data, order, ATOMIC)
        kept.add((data / "state" / "fork.json").read_text())
    assert kept == {"old", "new" * 99}


def test_it_can_die_at_the_next_point_of_all(data: Path) -> None:
    orders = after(data, Order(DIE, ANY), LINE, ATOMIC)
    assert orders.carried_out() == [(DIE, "before the writing: session_history.jsonl")]


@pytest.mark.parametrize(
    ("error", "refused", "allowed"),
    [
        ("EIO", ("sync",), ("create", "write", "rename", "remove")),
        ("EROFS", ("create", "rename", "remove", "mkdir"), ("write", "sync")),
        ("ENOSPC", ("create", "write", "mkdir"), ("rename", "remove", "sync")),
    ],
)
def test_an_error_meets_its_calls_alone(
    data: Path, error: str, refused: tuple[str, ...], allowed: tuple[str, ...]
) -> None:
    orders = Orders(data.parent / "orders")
    system = WoundedSystem(data, orders)
    descriptor = system.open(data / "state" / "new.json", os.O_WRONLY | os.O_CREAT, 0o600)
    other = data / "state" / "other"
    calls: dict[str, Callable[[], object]] = {
        "create": lambda: system.close(system.open(other, os.O_WRONLY | os.O_CREAT, 0o600)),
        "write": lambda: system.write(descriptor, b"0123456789"),
        "sync": lambda: system.fsync(descriptor),
        "rename": lambda: system.replace(data / "reminders" / "tea.md", data / "reminders" / "t"),
        "remove": lambda: system.unlink(data / "reminders" / "milk.md"),
        "mkdir": lambda: system.mkdir(data / "state" / "undo"),
    }
    orders.give(Order(error))
    for name in refused:
        with pytest.raises(OSError, match=os.strerror(getattr(errno, error))):
            calls[name]()
    for name in allowed:
        calls[name]()
    orders.withdraw()
    for name in {*refused} - {*allowed}:
        calls[name]()
    system.close(descriptor)


def test_an_error_can_be_for_one_file(data: Path) -> None:
    orders = Orders(data.parent / "orders")
    system = WoundedSystem(data, orders)
    orders.give(Order("ENOSPC", label="session_history.jsonl"))
    for name, is_met in (("fork.json", False), ("session_history.jsonl", True)):
        descriptor = system.open(data / "state" / name, os.O_WRONLY | os.O_APPEND)
        if is_met:
            with pytest.raises(OSError, match="No space"):
                system.write(descriptor, b"0123456789")
        else:
            assert system.write(descriptor, b"0123456789") == 10
        system.close(descriptor)


def test_what_lies_elsewhere_is_let_alone(data: Path, tmp_path: Path) -> None:
    orders = Orders(data.parent / "orders")
    system = WoundedSystem(data, orders)
    orders.give(Order("EROFS"))
    for path in (tmp_path / "free", data / ".git" / "index"):
        path.parent.mkdir(exist_ok=True)
        system.close(system.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        system.unlink(path)
    assert orders.carried_out() == []


def test_files_of_the_state_have_names_of_their_own_and_jobs_have_their_folder() -> None:
    assert (
        point(Moment.SYNC, Path("state/session_history.jsonl"))
        == "before the sync: session_history.jsonl"
    )
    assert (
        point(Moment.HALF, Path("state/.fork.json.tmp")) == "in the middle of the draft: fork.json"
    )
    assert point(Moment.REMOVAL, Path("reminders/tea.md")) == "before the removal: reminders"


def test_a_file_that_is_written_and_has_no_point_is_known() -> None:
    assert without_point(
        ["before the sync: session_history.jsonl", "before the draft: new.json"]
    ) == {"new.json"}
