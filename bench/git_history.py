"""What the history of the data directory costs those who write, and how batching pays."""

from __future__ import annotations

import subprocess
import time
from itertools import count
from pathlib import Path

from bench.bars import Bar
from bench.measure import Result, Unit, compare
from bench.places import prepared
from ollim_bot.paths import DataPaths
from ollim_bot.store.files import FileLock
from ollim_bot.store.journal import GitJournal

BATCH = 50
LIMIT = 30.0


class History:
    """A data directory with its history, and a git that is counted."""

    def __init__(self, folder: Path) -> None:
        self.paths, _ = prepared(folder / "data")
        self._runs = folder / "runs"
        self._git = folder / "git"
        self._git.write_text(f'#!/bin/sh\necho run >> "{self._runs}"\nexec git "$@"\n')
        self._git.chmod(0o700)
        self._numbers = count()
        self.journal = self._opened(0.2)
        self.journal.prepare()
        # One whose pause never ends: what it is told waits.
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
        lock = FileLock(_lock_of(self.paths))
        git = str(self._git)
        return GitJournal(self.paths.root, lock, on_problem=print, pause=pause, git=git)


def measure(folder: Path) -> list[Result]:
    history = History(folder)
    return [
        *_counted(history),
        compare(
            f"write and note {BATCH} files",
            history.note,
            f"write {BATCH} files",
            lambda: [history.write() for _ in range(BATCH)],
            rounds=9,
            of=Bar.GIT,
            most_times=2,
        ),
        compare(
            f"{BATCH} files in one commit",
            lambda: history.commit(BATCH),
            f"{BATCH} commits",
            lambda: history.commit(*[1] * BATCH),
            rounds=3,
            most_times=0.2,
        ),
    ]


def _counted(history: History) -> list[Result]:
    """Those who write do nothing but note it, and a thread commits what has come together."""
    runs = history.runs
    history.note()
    runs_of_writers = history.runs - runs
    runs, commits = history.runs, history.commits
    history.commit(*[1] * BATCH)
    runs_of_each, commits_of_each = history.runs - runs, history.commits - commits
    commits = history.commits
    with history.journal:
        for _ in range(BATCH):
            history.journal.note(history.write(), "add routine x")
        _until_committed(history, commits)
    batches = history.commits - commits
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


def _until_committed(history: History, commits: int) -> None:
    began = time.monotonic()
    while history.commits == commits and time.monotonic() - began < LIMIT:
        time.sleep(0.05)


def _lock_of(paths: DataPaths) -> Path:
    return paths.lock_of(paths.root / ".git")
