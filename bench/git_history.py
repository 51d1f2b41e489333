"""What the history of the data directory costs those who write, and how batching pays."""

from __future__ import annotations

import subprocess
import time
from itertools import count
from pathlib import Path

from bench.bars import Bar
from bench.fixtures import prepared
from bench.measure import Result, Unit, compare
from ollim_bot.paths import DataPaths
from ollim_bot.store.files import FileLock
from ollim_bot.store.journal import GitJournal

BATCH = 50
LIMIT = 30.0


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
        lock = FileLock(_lock_of(self.paths))
        git = str(self._git)
        return GitJournal(self.paths.root, lock, on_problem=print, pause=pause, git=git)


def measure(folder: Path) -> list[Result]:
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


def _lock_of(paths: DataPaths) -> Path:
    return paths.lock_of(paths.root / ".git")
