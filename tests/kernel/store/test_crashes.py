"""Acknowledged commits survive a kill, a torn WAL and an interrupted checkpoint."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.kernel.store.scene import StoreScene

from ollim_bot.kernel.store.database import Database

pytestmark = pytest.mark.real_process

ROOT = Path(__file__).resolve().parents[3]
CRASH_POINTS = 20
COMMITS = 8


def run(module: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode in (0, -9), done.stderr
    return done.stdout


def test_a_kill_at_any_moment_leaves_whole_steps_and_right_mirrors(tmp_path: Path) -> None:
    run("tests.kernel.store.killed_worker", str(tmp_path), str(CRASH_POINTS))
    for number in range(1, CRASH_POINTS + 1):
        scene = StoreScene(tmp_path / str(number))
        check_after_a_kill(scene)
        scene.close()


def check_after_a_kill(scene: StoreScene) -> None:
    acknowledged = len((scene.root / "acknowledged").read_text().splitlines())
    count = consistent_count(scene.open())
    assert count in (acknowledged, acknowledged + 1)
    sessions, history = scene.state / "sessions.json", scene.state / "session_history.jsonl"
    if count:
        assert sessions.read_text() == f"session-{count}"
        assert history.read_text().count("\n") == count
    else:
        assert not sessions.exists()
    assert scene.problems == []


def consistent_count(database: Database) -> int:
    """The number of steps of `killed_worker` in the database. All tables must agree on it."""
    counts = {
        database.query(lambda tx: tx.ledger.count()),
        database.query(lambda tx: tx.messages.count()),
        int(str(database.query(lambda tx: tx.memory.get()).get("count", 0))),
        int(str(database.query(lambda tx: tx.session.get()) or "session-0").split("-")[1]),
        len(database.query(lambda tx: tx.session_history.all())),
    }
    assert len(counts) == 1
    return counts.pop()


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """The state folder of a killed process, and the size of the WAL after each commit."""
    folder = tmp_path_factory.mktemp("torn")
    sizes = run("tests.kernel.store.wal_size_worker", str(folder), str(COMMITS)).split()
    return folder / "state", [int(size) for size in sizes]


def tails(length: int) -> Iterator[bytes]:
    yield b""
    yield bytes(length)
    yield random.Random(1).randbytes(length)


def count_in(folder: Path, database: bytes, log: bytes) -> int:
    """The number of commits that SQLite finds without an index of the WAL, as after a power cut."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "ollim.db").write_bytes(database)
    (folder / "ollim.db-wal").write_bytes(log)
    with closing(sqlite3.connect(folder / "ollim.db")) as connection:
        ledger = connection.execute("SELECT count(*) FROM ledger").fetchone()[0]
        messages = connection.execute("SELECT count(*) FROM messages").fetchone()[0]
    assert ledger == messages
    return int(ledger)


def test_a_log_cut_behind_an_acknowledged_commit_has_it(
    torn: tuple[Path, list[int]], tmp_path: Path
) -> None:
    state, sizes = torn
    database, log = (state / "ollim.db").read_bytes(), (state / "ollim.db-wal").read_bytes()
    assert len(sizes) == COMMITS
    for number, size in enumerate(sizes, 1):
        for beyond in (0, 100, 4096):
            for tail in tails(4096 + 24):
                cut = log[: size + beyond]
                assert count_in(tmp_path / "cut", database, cut + tail) >= number


def test_a_log_that_is_one_byte_short_does_not_have_the_commit(
    torn: tuple[Path, list[int]], tmp_path: Path
) -> None:
    state, sizes = torn
    database, log = (state / "ollim.db").read_bytes(), (state / "ollim.db-wal").read_bytes()
    for number, size in enumerate(sizes, 1):
        assert count_in(tmp_path / "cut", database, log[: size - 1]) == number - 1


def test_a_checkpoint_that_was_cut_off_loses_nothing(
    torn: tuple[Path, list[int]], tmp_path: Path
) -> None:
    state, _ = torn
    old, log = (state / "ollim.db").read_bytes(), (state / "ollim.db-wal").read_bytes()
    new = checkpointed(tmp_path, old, log)
    old = old.ljust(len(new), b"\0")
    rng = random.Random(1)
    for _ in range(20):
        mixed = b"".join(
            rng.choice((old, new))[start : start + 512] for start in range(0, len(new), 512)
        )
        assert count_in(tmp_path / "mixed", mixed, log) == COMMITS


def checkpointed(folder: Path, database: bytes, log: bytes) -> bytes:
    path = folder / "ollim.db"
    path.write_bytes(database)
    (folder / "ollim.db-wal").write_bytes(log)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return path.read_bytes()


def test_a_disk_that_fails_at_a_commit_ends_the_process_and_loses_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernel.store.limited_worker", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "the next start finds out" in done.stderr
    acknowledged = len(done.stdout.splitlines())
    assert acknowledged > 1
    scene = StoreScene(tmp_path)
    assert consistent_count(scene.open()) in (acknowledged, acknowledged + 1)
    scene.close()


def test_two_processes_lose_no_commit_and_claim_each_occurrence_once(tmp_path: Path) -> None:
    scene = StoreScene(tmp_path)
    scene.open().close()
    workers = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.kernel.store.concurrent_worker",
                str(tmp_path),
                name,
                "40",
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    claimed = [int(worker.communicate(timeout=60)[0]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    assert sum(claimed) == 40
    database = scene.open()
    assert database.query(lambda tx: tx.memory.get()) == {"one": 40, "two": 40}
    assert database.query(lambda tx: tx.ledger.count()) == 40
    updates = database.query(lambda tx: tx.session_history.all())
    assert len(updates) == 80
    lines = (scene.state / "session_history.jsonl").read_text().splitlines()
    assert len(lines) == 80
    newest = database.query(lambda tx: tx.session.get())
    assert (scene.state / "sessions.json").read_text() == newest
    assert scene.problems == []
    scene.close()
