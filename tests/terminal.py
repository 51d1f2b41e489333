"""A terminal for each test: a home, a clock, and the whole program behind `main`."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from devtools.doubles.clock import off_the_second
from tests.kinds import made_once
from tests.snapshots import Snapshot

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.journal import GitMissing, open_journal
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.transaction import Step
from ollim_bot.surfaces.terminal.main import main

T = TypeVar("T")

BERLIN = ZoneInfo("Europe/Berlin")
SUNDAY = datetime(2026, 11, 15, 14, 30, tzinfo=BERLIN)
_NO_GIT = f"note: {GitMissing('git')}\n"
PROGRAM = Path(sys.executable).with_name("ollim-bot")

_HOLD = """
import sys
from pathlib import Path
from ollim_bot.kernel.base.instance import single_instance
with single_instance(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


class InteractiveInput(io.StringIO):
    def isatty(self) -> bool:
        return True


def is_here(noun: str) -> bool:
    """Whether this installation has the command: it may be without the standby."""
    return noun != "standby" or find_spec("ollim_bot_standby") is not None


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str


@made_once
def _new_directory(*, has_git: bool) -> Snapshot:
    """The data directory that the first change makes."""
    with TemporaryDirectory() as folder:
        paths = DataPaths(Path(folder, "data"))
        prepare_data_directory(paths)
        if has_git:
            open_journal(paths, on_problem=print).prepare()
        return Snapshot(paths.root)


class Terminal:
    """Runs commands in this process; `now` can be moved. That git is missing is not shown.

    `done` and `start` make a data directory before an `add`, unless `is_new_machine`.
    """

    is_new_machine = False

    def __init__(self, home: Path, now: datetime = SUNDAY) -> None:
        self.home = home
        self.now = off_the_second(now)
        self.environ = {"HOME": str(home), "OLLIM_TIMEZONE": "Europe/Berlin"}
        self.paths = DataPaths(home / ".ollim-bot")

    def run(self, *words: str, now: Callable[[], datetime] | None = None) -> CommandResult:
        out, err = io.StringIO(), io.StringIO()
        clock = now or (lambda: self.now)
        with redirect_stdout(out), redirect_stderr(err):
            code = main(words, environ=self.environ, cwd=self.home, now=clock)
        return CommandResult(code, out.getvalue(), err.getvalue().replace(_NO_GIT, ""))

    def done(self, *words: str) -> str:
        """Run a command that must succeed, and return its standard output."""
        self._begin(words)
        answer = self.run(*words)
        assert answer.code == 0, answer
        return answer.out

    def refused(self, *words: str, code: int = 2) -> str:
        """Run a command that must fail, and return its standard error. It prints nothing else."""
        answer = self.run(*words)
        assert (answer.code, answer.out) == (code, "")
        return answer.err

    def _begin(self, words: Sequence[str]) -> None:
        if words[1:2] == ("add",) and not (self.is_new_machine or self.paths.root.exists()):
            self.make_directory()

    def make_directory(self) -> None:
        """Make the data directory that the first change makes."""
        _new_directory(has_git=which("git") is not None).write(self.paths.root)

    def keep(self, step: Step[T]) -> T:
        """Run a step in the database, which is made if there is none."""
        self.paths.locks.mkdir(parents=True, exist_ok=True)
        opened = open_database(self.paths, lambda: self.now, is_holder=True, report=print)
        with closing(opened) as database:
            return database.run(step)

    def json(self, *words: str) -> Any:
        return json.loads(self.done(*words, "--json"))

    def wait(self, **length: float) -> None:
        self.now += timedelta(**length)

    def write(self, relative: str, text: str) -> Path:
        path = self.paths.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def git(self, *words: str) -> list[str]:
        """Run git in the data directory, and return the lines of its output."""
        ran = subprocess.run(
            ["git", *words], cwd=self.paths.root, capture_output=True, text=True, check=True
        )
        return ran.stdout.splitlines()

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Start the installed program in a new process."""
        self._begin(words)
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | options
        return subprocess.Popen(
            [PROGRAM, *words],
            env=self.environ | {"PATH": os.environ["PATH"]},
            cwd=self.home,
            text=True,
            **streams,
        )

    def installed(self, *words: str, given: str = "", **options: Any) -> CommandResult:
        child = self.start(*words, **options)
        out, err = child.communicate(given, timeout=60)
        return CommandResult(child.returncode, out or "", err)


@contextmanager
def held(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that runs as the bot. `single_instance` does so in this one."""
    child = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    try:
        yield child
    finally:
        child.communicate("")
