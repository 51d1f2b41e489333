"""How long a person, or the agent, waits for a command."""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.request import Request, urlopen

from devtools.localgoogle.server import LocalGoogle, in_thread

import ollim_bot
from bench.bars import Bar
from bench.fixtures import prepared, write_reminders
from bench.measure import Action, Result, Unit, compare
from ollim_bot.integrations.google.token import GoogleToken, OAuthClient, with_answer
from ollim_bot.integrations.google.tokens import GoogleTokenStore
from ollim_bot.paths import DataPaths
from ollim_bot.settings import Secret

# Packages that are too slow to import for a command.
SLOW = ("asyncio", "aiohttp", "discord", "claude_agent_sdk", "pydantic")
LISTING = "from ollim_bot.cli.main import main; main(['reminder', 'list'])"
TASKS = "/tasks/v1/lists/@default/tasks"
ALL = "import ollim_bot.app.app, ollim_bot.surfaces.discord.surface"


def measure(folder: Path) -> list[Result]:
    # An installed package is compiled; a checkout may not be.
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
        *_tasks_at_google(folder, command),
        compare(
            "ollim-bot version, cold",
            running([command, "version"], folder),
            "python -c pass",
            bare,
            rounds=15,
        ),
    ]


def _tasks_at_google(folder: Path, command: str) -> list[Result]:
    """`tasks list`, which the agent calls often, against the one HTTP request that it needs."""
    home = folder / "google"
    paths, _ = prepared(home / "data")
    with _connected(paths) as (google, token):
        for number in range(20):
            google.tasks.add(f"task {number}")
        request = Request(
            f"{google.url}{TASKS}?showCompleted=false&maxResults=100",
            headers={"Authorization": f"Bearer {token}"},
        )
        bare = running([sys.executable, "-c", "pass"], home)

        def bare_and_call() -> None:
            bare()
            with urlopen(request) as answer:
                json.load(answer)

        return [
            compare(
                "tasks list, 20 at Google, cold",
                running([command, "tasks", "list"], home),
                "python -c pass, and the call",
                bare_and_call,
                rounds=15,
                most_times=8,
            )
        ]


@contextmanager
def _connected(paths: DataPaths) -> Iterator[tuple[LocalGoogle, str]]:
    with in_thread(LocalGoogle()) as google:
        sign_ins, now = google.sign_ins, datetime.now(UTC)
        client = OAuthClient(
            sign_ins.client_id, Secret(sign_ins.client_secret), f"{google.url}/auth", google.url
        )
        empty = GoogleToken(Secret(""), now, Secret(""), (), client)
        token = with_answer(empty, sign_ins.grant(), now + timedelta(minutes=-1))
        GoogleTokenStore(paths, lambda: now).keep(token)
        lines = (f"{name}={value}\n" for name, value in google.environment.items())
        paths.env_file.write_text("".join(lines))
        paths.env_file.chmod(0o600)
        yield google, token.access.reveal()


def running(command: Sequence[str], home: Path) -> Action:
    def run() -> None:
        subprocess.run(command, env=_environ(home), cwd=home, check=True, stdout=subprocess.DEVNULL)

    return run


def slow_modules(statement: str, home: Path) -> int:
    """How many of these packages a new Python process has loaded after the statement."""
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
