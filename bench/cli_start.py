"""How long a person, or the agent, waits for a command."""

from __future__ import annotations

import compileall
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import ollim_bot
from bench.measure import Action, Result, compare
from bench.places import prepared, write_reminders


def measure(folder: Path) -> list[Result]:
    # An installed package comes compiled; a checkout may not.
    compileall.compile_dir(Path(ollim_bot.__file__).parent, quiet=2)
    paths, _ = prepared(folder / "data")
    write_reminders(paths.reminders, 50)
    command = str(Path(sys.executable).with_name("ollim-bot"))
    bare = running([sys.executable, "-c", "pass"], folder)
    return [
        compare(
            "reminder list, 50 jobs, cold",
            running([command, "reminder", "list"], folder),
            "python -c pass",
            bare,
            rounds=25,
            bar=6,
        ),
        compare(
            "ollim-bot version, cold",
            running([command, "version"], folder),
            "python -c pass",
            bare,
            rounds=15,
        ),
    ]


def running(command: Sequence[str], home: Path) -> Action:
    environ = {"HOME": str(home), "OLLIM_DATA_DIR": str(home / "data"), "OLLIM_TIMEZONE": "UTC"}

    def run() -> None:
        subprocess.run(command, env=environ, cwd=home, check=True, stdout=subprocess.DEVNULL)

    return run
