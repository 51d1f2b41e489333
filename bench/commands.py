"""How long a person, or the agent, waits for a command."""

from __future__ import annotations

import compileall
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.request import Request, urlopen

from devtools.localgoogle.server import LocalGoogle, in_thread

import ollim_bot
from bench.fixtures import (
    environ_of,
    new_database,
    open_item,
    prepared,
    run_rows,
    running,
    write_reminders,
    write_routines,
)
from bench.measure import Bar, Result, Unit, compare
from ollim_bot.features.google.tokens import GoogleToken, GoogleTokenStore
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.calendar_files import CalendarFiles
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.calendar import CalendarCopy, CalendarEvent
from ollim_bot.kernel.values.changes import Changer, ChangeRow
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.occurrences import Answer, Occurrence
from ollim_bot.kernel.values.usage import Price, UsageKind, UsageRow

# Packages that are too slow to import for a command.
SLOW = ("asyncio", "aiohttp", "discord", "claude_agent_sdk", "pydantic")
LISTING = "from ollim_bot.surfaces.terminal.main import main; main(['reminder', 'list'])"
TASKS = "/tasks/v1/lists/@default/tasks"
ALL = "import ollim_bot.app.app, ollim_bot.surfaces.discord.surface"
# What a person asks all day, and how many times the start of Python it may take.
COMMANDS = (
    *("today", "tasks list", "routine list", "cost", "changes", "runs", "receipt", "doses"),
    *("history search words", "config", "--help"),
)
MOST_TIMES = 8


def measure(folder: Path) -> list[Result]:
    """How long a person, or the agent, waits for a command."""
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
        *_asked_all_day(folder / "lived", command),
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


def write_two_weeks(home: Path) -> None:
    """The data directory of a bot that was used for two weeks."""
    paths, database = DataPaths(home / "data"), new_database(home / "data")
    write_reminders(paths.reminders, 25)
    write_routines(paths.routines, 25, 1)
    now = datetime.now(UTC)
    database.run(partial(_live, now=now))
    database.close()
    events = (
        CalendarEvent(f"e{number}", "home", f"Meeting {number}", at, at + timedelta(hours=1))
        for number in range(60)
        for at in [now + timedelta(hours=8 * number)]
    )
    today = now.date()
    copy = CalendarCopy("home", "example.com", (*events,), now, today, today + timedelta(days=60))
    CalendarFiles(paths).write_copy(copy)
    lines = (f"- [ ] Task number {number} (due {today})\n" for number in range(20))
    paths.tasks.write_text("".join(lines))


def _asked_all_day(home: Path, command: str) -> list[Result]:
    write_two_weeks(home)
    bare = running([sys.executable, "-c", "pass"], home)
    return [
        compare(
            f"{words}, 50 jobs, cold",
            running([command, *words.split()], home),
            "python -c pass",
            bare,
            rounds=15,
            of=Bar.COMMANDS,
            most_times=MOST_TIMES,
        )
        for words in COMMANDS
    ]


def _live(tx: Transaction, now: datetime) -> None:
    for number in range(100):
        at = now - timedelta(hours=3 * (100 - number))
        job = f"p{number % 25}"
        tx.ledger.append(*run_rows(job, at))
        run = Occurrence.scheduled(JobKind.ROUTINE, job, at).id
        tx.usage.add(UsageRow(at, UsageKind.RUN, "m", Price.LISTED, 900, 500, occurrence=run))
        text = f"A few words about number {number}."
        tx.messages.add(ChatMessage(MessageId(f"m{number}"), at, Author.OWNER, text))
        place = f"routines/plan-{number % 25}.md"
        before, after = f"---\nid: p\n---\n{number}\n", f"---\nid: p\n---\n{number + 1}\n"
        tx.changes.put(ChangeRow(f"{number:08x}", at, place, Changer.PAGE, before, after))
    for number in range(20):
        item = replace(open_item(60 * number, now), is_dose=True)
        tx.due_items.put(item if number < 5 else item.answered(Answer.TAKEN, now, "web"))


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
        client = google.credentials["installed"]
        token = GoogleToken.granted(client, sign_ins.grant(), now + timedelta(minutes=-1))
        GoogleTokenStore(paths, lambda: now).keep(token)
        lines = (f"{name}={value}\n" for name, value in google.environment.items())
        paths.env_file.write_text("".join(lines))
        paths.env_file.chmod(0o600)
        yield google, token.access.reveal()


def slow_modules(statement: str, home: Path) -> int:
    """How many of these packages a new Python process has loaded after the statement."""
    count = f"sum(name.partition('.')[0] in {SLOW} for name in sys.modules)"
    program = f"import sys\n{statement}\nprint()\nprint({count})"
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(
        command, env=environ_of(home), cwd=home, check=True, capture_output=True, text=True
    )
    return int(done.stdout.splitlines()[-1])
