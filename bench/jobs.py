"""Ten thousand job files: the first look, the next, and one changed file."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path

from bench.fixtures import prepared, write_reminders
from bench.measure import Result, compare

MANY = 10_000


def measure(folder: Path) -> list[Result]:
    paths, stores = prepared(folder)
    write_reminders(paths.reminders, MANY)
    numbers = count()

    def read_bytes() -> None:
        for path in paths.reminders.iterdir():
            path.read_bytes()

    def first_look() -> None:
        _, fresh = prepared(folder)
        assert len(fresh.reminders.all()) == MANY

    def next_look() -> None:
        assert len(stores.reminders.all()) == MANY

    def one_changed() -> None:
        name = paths.reminders / "call-7.md"
        text = f"---\nid: r7\nrun-at: 2027-01-08T09:00\n---\nCall {next(numbers)}.\n"
        name.write_text(text)
        assert len(stores.reminders.all()) == MANY

    first = compare(
        f"{MANY} job files, first look", first_look, "reading their bytes", read_bytes, rounds=3
    )
    time.sleep(0.2)
    stores.reminders.all()
    base = "first look"
    return [
        first,
        compare("nothing changed since", next_look, base, first_look, rounds=3, most_times=0.3),
        compare("one file changed since", one_changed, base, first_look, rounds=3, most_times=0.3),
    ]
