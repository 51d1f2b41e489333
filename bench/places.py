"""A data directory to measure in."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from ollim_bot.data_paths import DataPaths
from ollim_bot.storage.bootstrap import prepare_data_directory
from ollim_bot.storage.stores import open_stores
from ollim_bot.stores import Stores
from ollim_bot.testing.journal import RememberingJournal

NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)


def prepared(root: Path) -> tuple[DataPaths, Stores]:
    paths = DataPaths(root)
    prepare_data_directory(paths)
    return paths, open_stores(paths, now=lambda: NOW, journal=RememberingJournal())


def write_reminders(folder: Path, count: int, year: int = 2027) -> None:
    for number in range(count):
        text = (
            f"---\nid: r{number}\nrun-at: {year}-01-{number % 28 + 1:02}T09:00:00+00:00\n"
            f"description: Call number {number}\nlate: tell\n---\nCall them and ask.\n"
        )
        (folder / f"call-{number}.md").write_text(text)


def write_routines(folder: Path, count: int, weekday: int) -> None:
    for number in range(count):
        text = (
            f'---\nid: p{number}\ncron: "{number % 60} {number % 24} * * {weekday}"\n'
            f"description: Plan number {number}\n---\nPlan it.\n"
        )
        (folder / f"plan-{number}.md").write_text(text)
