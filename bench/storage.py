"""Transactions and appends, a long history, git, a backup."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random

from tests.stores import Stores

from bench.fixtures import (
    LONG,
    NOW,
    OFTEN,
    fill_history,
    message,
    new_database,
    prepared,
    run_rows,
    running,
)
from bench.measure import Bar, Result, Unit, compare
from ollim_bot.features.keeping.backup import write_backup
from ollim_bot.features.keeping.restore import restore, take_all
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.database import Database
from ollim_bot.kernel.store.files import FileLock
from ollim_bot.kernel.store.journal import GitJournal
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.definitions import Armed, Definition
from ollim_bot.kernel.values.jobs import JobSpec, Routine
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.run_history import History, checkpoint_row
from ollim_bot.kernel.values.updates import PendingUpdate, PendingUpdates

ROUNDS, BACKUP_ROUNDS, HISTORY_ROUNDS = 60, 3, 15
WAITING = 10_000
# Without growth the ratio is 1; the rest allows for the noise between two medians of a disk.
NO_GROWTH = 1.5


def measure_storage(folder: Path) -> list[Result]:
    """Transactions and appends against the bare system calls, and with a long history before."""
    paths, stores = prepared(folder / "short")
    _, old = prepared(folder / "long")
    row = LedgerRow(NOW, "noted", facts={"text": "x" * 200})
    old.ledger.append(*[row] * LONG)
    keep_waiting(old, WAITING)
    keep_waiting(stores, 10)
    numbers = count()

    def transact(on: Stores) -> None:
        value = f"n{next(numbers)}"
        on.state.run(lambda tx: tx.session.put(SessionId(value)))

    return [
        compare(
            "transaction",
            lambda: transact(stores),
            "write, fsync, rename, fsync",
            lambda: bare_replace(folder),
            rounds=ROUNDS,
            most_times=2,
        ),
        compare(
            "append to the ledger",
            lambda: stores.ledger.append(row),
            "write, fsync",
            lambda: bare_append(folder),
            rounds=ROUNDS,
            most_times=3,
        ),
        compare(
            f"append with {LONG} rows before it",
            lambda: old.ledger.append(row),
            "with none",
            lambda: stores.ledger.append(row),
            rounds=ROUNDS,
            of=Bar.NO_GROWTH,
            most_times=NO_GROWTH,
        ),
        compare(
            f"pending update with {WAITING} others",
            lambda: old.leave_update("more", NOW),
            "with 10",
            lambda: stores.leave_update("more", NOW),
            rounds=ROUNDS,
            of=Bar.NO_GROWTH,
            most_times=NO_GROWTH,
        ),
        compare(
            "reading a value",
            stores.session.read,
            "reading its bytes",
            paths.sessions.read_bytes,
            rounds=ROUNDS,
        ),
    ]


def keep_waiting(stores: Stores, how_many: int) -> None:
    """The state after the owner was silent: ten updates are kept, and the others counted."""

    def step(pending: PendingUpdates) -> tuple[PendingUpdates, None]:
        for number in range(how_many):
            pending, _ = pending.appended(PendingUpdate(NOW, f"update {number}", f"{number:08x}"))
        return pending, None

    stores.updates.transact(step)


def bare_replace(folder: Path) -> None:
    temporary, target = folder / "bare.tmp", folder / "bare"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(descriptor, b'{"version": 1, "n": 1}')
    os.fsync(descriptor)
    os.close(descriptor)
    os.replace(temporary, target)
    directory = os.open(folder, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def bare_append(folder: Path) -> None:
    descriptor = os.open(folder / "bare.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, b"x" * 280 + b"\n")
    os.fsync(descriptor)
    os.close(descriptor)


# In the past, since the check uses the real clock.
END = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 365
DAILY = 30
MOST_SECONDS = 2.0

_SECOND = timedelta(seconds=1)


def measure_ledger(folder: Path) -> list[Result]:
    """What a year of history costs those who claim, start and check."""
    _, old = prepared(folder / "data")
    _, new = prepared(folder / "new")
    write_a_year(old)
    command = str(Path(sys.executable).with_name("ollim-bot"))
    numbers = count()

    def claim(on: Stores) -> None:
        on.ledger.claim(Occurrence.scheduled(JobKind.REMINDER, f"r{next(numbers)}", END), END)

    check = compare(
        f"runs check, {DAYS * DAILY} runs, cold",
        running([command, "runs", "check"], folder),
        "python -c pass",
        running([sys.executable, "-c", "pass"], folder),
        rounds=3,
        most_more=MOST_SECONDS,
    )
    return [
        check,
        compare(
            "claim with a year before it",
            lambda: claim(old),
            "with none",
            lambda: claim(new),
            rounds=ROUNDS,
            of=Bar.NO_GROWTH,
            most_times=NO_GROWTH,
        ),
        compare(
            "what is unfinished, a year before it",
            lambda: unfinished(old),
            "with none",
            lambda: unfinished(new),
            rounds=ROUNDS,
        ),
    ]


def unfinished(stores: Stores) -> History:
    return stores.state.query(lambda tx: tx.ledger.open_history())


def write_a_year(stores: Stores, daily: int = DAILY) -> None:
    for month in _by_month(sorted(_year(daily), key=lambda row: row.ts)):
        stores.ledger.append(*month)


def _year(daily: int) -> Iterator[LedgerRow]:
    start = END - timedelta(days=DAYS)
    jobs = [
        Routine(JobSpec(id=f"j{n}", message="words"), Cron.parse(f"{n} {n % 24} * * *"))
        for n in range(daily)
    ]
    yield from Armed().rows_for([Definition.of(job, UTC) for job in jobs], start, start)
    for job in jobs:
        job_id = job.spec.id
        moments = job.rhythm.between(start + _SECOND, END + _SECOND, UTC)
        yield from (row for at in moments for row in run_rows(job_id, at))
    for day in range(1, DAYS + 1):
        at = start + timedelta(days=day)
        yield checkpoint_row(at, at, History({}))


def _by_month(rows: list[LedgerRow]) -> Iterator[list[LedgerRow]]:
    for month in sorted({row.ts.strftime("%Y-%m") for row in rows}):
        yield [row for row in rows if row.ts.strftime("%Y-%m") == month]


BATCH, LIMIT = 50, 30.0


class GitHistoryScene:
    """A data directory with a git history, and a git whose runs are counted."""

    def __init__(self, folder: Path) -> None:
        self.paths, _ = prepared(folder / "data")
        self._runs = folder / "runs"
        self._git = folder / "git"
        self._git.write_text(f'#!/bin/sh\necho run >> "{self._runs}"\nexec git "$@"\n')
        self._git.chmod(0o700)
        self._numbers = count()
        self.journal = self._opened(0.2)
        self.journal.prepare()
        # A journal whose pause never ends, so its notes are never committed.
        self.waiting = self._opened(3600)

    def write(self) -> Path:
        path = self.paths.routines / f"r{next(self._numbers)}.md"
        path.write_text("---\nid: x\n---\n")
        return path

    def note(self) -> None:
        for _ in range(BATCH):
            self.waiting.note(self.write(), "add routine x")

    def commit(self, *sizes: int) -> None:
        for size in sizes:
            for _ in range(size):
                self.journal.note(self.write(), "add routine x")
            self.journal.flush()

    @property
    def runs(self) -> int:
        """How often git has run so far."""
        return len(self._runs.read_text().splitlines())

    @property
    def commits(self) -> int:
        command = ["git", "rev-list", "--count", "HEAD"]
        return int(subprocess.check_output(command, cwd=self.paths.root))

    def _opened(self, pause: float) -> GitJournal:
        lock = FileLock(self.paths.lock_of(self.paths.root / ".git"))
        git = str(self._git)
        return GitJournal(self.paths.root, lock, on_problem=print, pause=pause, git=git)


def measure_git(folder: Path) -> list[Result]:
    """What the history of the data directory costs those who write, and how batching pays."""
    scene = GitHistoryScene(folder)
    return [
        *_counted(scene),
        compare(
            f"write and note {BATCH} files",
            scene.note,
            f"write {BATCH} files",
            lambda: [scene.write() for _ in range(BATCH)],
            rounds=9,
            of=Bar.GIT,
            most_times=2,
        ),
        compare(
            f"{BATCH} files in one commit",
            lambda: scene.commit(BATCH),
            f"{BATCH} commits",
            lambda: scene.commit(*[1] * BATCH),
            rounds=3,
            most_times=0.2,
        ),
    ]


def _counted(scene: GitHistoryScene) -> list[Result]:
    """Those who write do nothing but note it, and a thread commits what has come together."""
    runs = scene.runs
    scene.note()
    runs_of_writers = scene.runs - runs
    runs, commits = scene.runs, scene.commits
    scene.commit(*[1] * BATCH)
    runs_of_each, commits_of_each = scene.runs - runs, scene.commits - commits
    commits = scene.commits
    with scene.journal:
        for _ in range(BATCH):
            scene.journal.note(scene.write(), "add routine x")
        _until_committed(scene, commits)
    batches = scene.commits - commits
    base, unit = f"{BATCH} committed one by one", Unit.COUNT
    return [
        Result(
            f"git runs on the way of {BATCH} writes",
            runs_of_writers,
            base,
            runs_of_each,
            Bar.GIT,
            0,
            unit=unit,
        ),
        Result(
            f"commits of {BATCH} writes",
            batches,
            base,
            commits_of_each,
            Bar.GIT,
            most_times=0.2,
            unit=unit,
        ),
    ]


def _until_committed(scene: GitHistoryScene, commits: int) -> None:
    began = time.monotonic()
    while scene.commits == commits and time.monotonic() - began < LIMIT:
        time.sleep(0.05)


PICTURES = 500
_PICTURE_BYTES = 60_000
# Compression and two checksums against writing alone. Faster than linear growth exceeds this.
_MOST = 30


def measure_backup(folder: Path) -> list[Result]:
    """A backup of years of messages and its restore, against a plain copy of the same bytes."""
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
        compare(f"backup of {about}", back_up, plain, copy, rounds=BACKUP_ROUNDS, most_times=_MOST),
        compare(
            f"restore of {about}", put_back, plain, copy, rounds=BACKUP_ROUNDS, most_times=_MOST
        ),
    ]


def measure_history(folder: Path) -> list[Result]:
    """Searching what was said, with a long history."""
    command = str(Path(sys.executable).with_name("ollim-bot"))
    old, new = new_database(folder / "data"), new_database(folder / "short")
    old.run(fill_history)
    old.checkpoint()
    numbers = count(LONG)
    bare = running([sys.executable, "-c", "pass"], folder)
    rows = [
        compare(
            f"history search, {LONG} messages, {about}, cold",
            running([command, "history", "search", *words], folder),
            "python -c pass",
            bare,
            rounds=HISTORY_ROUNDS,
            most_more=0.1,
        )
        for about, words in (
            ("a rare word", ("rare77",)),
            ("a word of all", (OFTEN, "--who", "bot")),
        )
    ]
    rows.append(
        compare(
            f"message added with {LONG} before it",
            lambda: _add(old, next(numbers)),
            "with none",
            lambda: _add(new, next(numbers)),
            rounds=4 * HISTORY_ROUNDS,
            most_times=NO_GROWTH,
        )
    )
    old.close()
    new.close()
    return rows


def _add(database: Database, number: int) -> None:
    database.run(lambda tx: tx.messages.add(message(number, "a few words of the owner")))
