"""Set-up in the process of the test, with a scripted person who answers its questions."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from ollim_bot.features.setup.auth_command import ClaudeLogin
from ollim_bot.features.setup.setup_command import MachineStart, SetUpEnvironment, set_up
from ollim_bot.kernel.base.environment import read_env_file
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.surfaces.terminal.caller import Caller

NOW = datetime(2026, 11, 16, 7, 15, 40, tzinfo=ZoneInfo("Europe/Berlin"))
STOP = "\x03"
HANG_UP = "\x04"


class ScriptedPerson:
    """Gives the answers in order. `screen` is all that was shown, with the typed answers."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []
        self.keystrokes = 0
        self.screen = ""

    def say(self, line: str, indent: str = "") -> None:
        assert len(indent) < 10
        self.screen += f"{line}\n"

    def ask(self, question: str) -> str:
        answer = self._answer(question)
        self.screen += f"{question}{answer}\n"
        return answer

    def ask_secret(self, question: str) -> str:
        answer = self._answer(question)
        self.screen += f"{question}\n"
        return answer

    def _answer(self, question: str) -> str:
        self.questions.append(question)
        answer = self.answers.pop(0)
        if answer == STOP:
            raise KeyboardInterrupt
        if answer == HANG_UP:
            raise EOFError
        self.keystrokes += len(answer) + 1
        return answer


class FakeClaudeProgram:
    """A fake `claude` program, which keeps its login in a file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "claude"
        self._login = folder / "login.json"
        self.lets_in = True
        out = json.dumps({"loggedIn": False})
        account = {"loggedIn": True, "authMethod": "claude.ai", "email": "ada@example.org"}
        self.path.write_text(
            "#!/bin/sh\n"
            f'if [ "$2" = login ]; then test ! -e {folder}/refuses || exit 1; '
            f"echo '{json.dumps(account)}' > {self._login}; exit 0; fi\n"
            f"cat {self._login} 2>/dev/null || echo '{out}'\n"
        )
        self.path.chmod(0o700)

    def refuse(self) -> None:
        self.path.with_name("refuses").touch()

    @property
    def is_signed_in(self) -> bool:
        return self._login.exists()


class FakeMachineStart(MachineStart):
    """A fake for the start of the bot with the machine."""

    def __init__(self) -> None:
        self.is_there = False
        self.refusal = ""

    def is_installed(self) -> bool:
        return self.is_there

    def install(self) -> None:
        if self.refusal:
            raise OllimError(self.refusal)
        self.is_there = True


class SetupScene:
    """An empty home, and all of set-up except for the doctor."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environ = {"HOME": str(home), "TZ": "Europe/Berlin", "PATH": os.environ["PATH"]}
        self.paths = DataPaths(home / ".ollim-bot")
        self.claude = FakeClaudeProgram(home)
        self.service: MachineStart | None = None
        self.has_failed = False
        self.reports = 0
        self.printed = ""

    def run(
        self, person: ScriptedPerson, *words: str, is_terminal: bool = True, piped: str = ""
    ) -> OllimError | KeyboardInterrupt | None:
        """Run set-up, and return its error, or None if it succeeded."""
        caller = Caller(self.environ, self.home, lambda: NOW)
        surroundings = SetUpEnvironment(
            person,
            ClaudeLogin(self.claude.path),
            self.service,
            self._report,
            is_terminal,
            io.StringIO(piped),
        )
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(out):
            try:
                set_up(words, caller, surroundings)
            except (OllimError, KeyboardInterrupt) as ended:
                return ended
            finally:
                self.printed = out.getvalue()
        return None

    def _report(self, _: Caller) -> bool:
        self.reports += 1
        return self.has_failed

    @property
    def env(self) -> dict[str, str]:
        """The settings in the `.env` of the data directory."""
        return dict(read_env_file(self.text).values)

    @property
    def text(self) -> str:
        return self.paths.env_file.read_text() if self.paths.env_file.exists() else ""

    def write(self, text: str) -> None:
        self.paths.root.mkdir(mode=0o700, exist_ok=True)
        self.paths.env_file.write_text(text)
        self.paths.env_file.chmod(0o600)


def sentences(ended: object) -> Sequence[str]:
    return str(ended).splitlines()
