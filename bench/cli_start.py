"""How long a person, or the agent, waits for a command."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import ollim_bot
from bench.bars import Bar
from bench.measure import Action, Result, Unit, compare
from bench.places import prepared, write_reminders

# Of packages that a command has no time for.
SLOW = ("asyncio", "aiohttp", "discord", "claude_agent_sdk", "pydantic")
LISTING = "from ollim_bot.cli.main import main; main(['reminder', 'list'])"
ALL = "import ollim_bot.app.app, ollim_bot.surfaces.discord.surface"


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
            of=Bar.COMMAND,
            most_times=6,
        ),
        Result(
            "slow modules of reminder list",
            slow_modules(LISTING, folder),
            "of the whole bot",
            slow_modules(ALL, folder),
            of=Bar.COMMAND,
            most=0,
            unit=Unit.COUNT,
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
    def run() -> None:
        subprocess.run(command, env=_environ(home), cwd=home, check=True, stdout=subprocess.DEVNULL)

    return run


def slow_modules(statement: str, home: Path) -> int:
    """How many of them a fresh Python has loaded after the statement."""
    count = f"sum(name.partition('.')[0] in {SLOW} for name in sys.modules)"
    program = f"import sys\n{statement}\nprint()\nprint({count})"
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(
        command, env=_environ(home), cwd=home, check=True, capture_output=True, text=True
    )
    return int(done.stdout.splitlines()[-1])


def _environ(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "OLLIM_DATA_DIR": str(home / "data"),
        "OLLIM_TIMEZONE": "UTC",
    }
