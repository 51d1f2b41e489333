"""What the history of the data directory costs those who write, and how batching pays."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from bench.measure import Result, compare
from bench.places import prepared
from ollim_bot.storage.journal.git_journal import GitJournal, open_journal
from ollim_bot.storage.locks import FileLock

BATCH = 50


def measure(folder: Path) -> list[Result]:
    paths, _ = prepared(folder)
    numbers = count()
    journal = open_journal(paths, on_problem=print)
    journal.prepare()

    def write() -> Path:
        path = paths.routines / f"r{next(numbers)}.md"
        path.write_text("---\nid: x\n---\n")
        return path

    def commit(sizes: list[int]) -> None:
        for size in sizes:
            for _ in range(size):
                journal.note(write(), "add routine x")
            journal.flush()

    def note() -> None:
        for _ in range(BATCH):
            waiting.note(write(), "add routine x")

    waiting = GitJournal(
        paths.root, FileLock(paths.locks / "waiting"), on_problem=print, pause=3600
    )
    return [
        compare(
            f"write and note {BATCH} files",
            note,
            f"write {BATCH} files",
            lambda: [write() for _ in range(BATCH)],
            rounds=9,
            bar=2,
        ),
        compare(
            f"{BATCH} files in one commit",
            lambda: commit([BATCH]),
            f"{BATCH} commits",
            lambda: commit([1] * BATCH),
            rounds=3,
            bar=0.2,
        ),
    ]
