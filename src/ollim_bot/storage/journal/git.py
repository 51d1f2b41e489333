"""Runs git on one folder: it asks nobody anything, obeys no hook and ends within a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ollim_bot.environment.programs import program_path, search_path
from ollim_bot.errors import OllimError

_SETTINGS = (
    "commit.gpgsign=false",
    "core.fsmonitor=false",
    # A power cut must not leave a repository with empty objects; the flushes come in one go.
    "core.fsync=added,reference",
    "core.fsyncMethod=batch",
    "core.hooksPath=/dev/null",
    "core.safecrlf=false",
    "gc.autoDetach=false",
    "i18n.commitEncoding=UTF-8",
    "init.defaultBranch=main",
    "maintenance.auto=false",
)
_ENVIRONMENT = {
    "GIT_AUTHOR_EMAIL": "ollim-bot@localhost",
    "GIT_AUTHOR_NAME": "ollim-bot",
    "GIT_COMMITTER_EMAIL": "ollim-bot@localhost",
    "GIT_COMMITTER_NAME": "ollim-bot",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_WHERE_GIT_AND_ITS_SETTINGS_ARE = frozenset(
    ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "GIT_EXEC_PATH")
)
_ANOTHER_GIT_AT_WORK = (".lock'", "cannot lock ref", "did not match any file")
_SECONDS_TO_END = 2.0


class GitTrouble(OllimError):
    """Git did not do its work; the files are as they were."""


class GitMissing(GitTrouble):
    def __init__(self, program: str) -> None:
        super().__init__(
            f"{program} was not found; changes are kept but without history. "
            "Install git, for example with `apt install git`."
        )


class GitHung(GitTrouble):
    def __init__(self, root: Path, command: str, limit: float) -> None:
        super().__init__(
            f"`git {command}` in {root} was stopped after {limit:g} s; changes are kept, and it is "
            "tried again. Run `git status` there to see what holds it up."
        )


class GitUnfinished(GitTrouble):
    def __init__(self, root: Path) -> None:
        super().__init__(
            f"A merge or rebase in {root} is not finished; changes are added to the history "
            "after it. `git status` there shows how to go on."
        )


class GitFailed(GitTrouble):
    def __init__(self, root: Path, words: str) -> None:
        super().__init__(
            f"git could not add to the history of {root}: {words}. "
            "Changes are kept, and it is tried again."
        )
        self.words = words


class GitBusy(GitTrouble):
    """Another git is at work in the same repository, or the files changed meanwhile."""

    def __init__(self, root: Path, words: str) -> None:
        super().__init__(
            f"Another git is busy in {root}: {words}. Changes are kept, and it is tried again. "
            "If no other git runs there, remove its lock file."
        )


class GitRefuses(GitTrouble):
    """Git will not work here at all, for example because the folder belongs to another user."""

    def __init__(self, root: Path, words: str) -> None:
        super().__init__(
            f"git refuses {root}: {words}. Changes are kept but without history. "
            "`git status` there says what to do."
        )


@dataclass(frozen=True, slots=True)
class Git:
    root: Path
    program: str = "git"
    limit: float = 30.0
    options: tuple[str, ...] = ()

    def run(self, command: str, *arguments: str, given: bytes = b"") -> bytes:
        """What git prints. Raises a `GitTrouble` unless it succeeds within the time limit."""
        with self._process(command, *arguments) as process:
            try:
                out, err = process.communicate(given, timeout=self.limit)
            except subprocess.TimeoutExpired:
                _end(process)
                raise GitHung(self.root, command, self.limit) from None
        if process.returncode:
            raise self._failure(process.returncode, err.decode(errors="replace"))
        return out

    def _process(self, *arguments: str) -> subprocess.Popen[bytes]:
        settings = (word for setting in _SETTINGS for word in ("-c", setting))
        environment = _environment()
        program = program_path(self.program, environment["PATH"])
        if program is None:
            raise GitMissing(self.program)
        try:
            # In a session of its own it has no terminal to ask on, and Ctrl-C does not reach it.
            return subprocess.Popen(
                (program, *settings, *self.options, *arguments),
                cwd=self.root,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (FileNotFoundError, PermissionError):
            if self.root.is_dir():
                raise GitMissing(self.program) from None
            raise

    def _failure(self, code: int, text: str) -> GitFailed | GitBusy:
        complaint = _first_complaint(text)
        if not complaint or any(sign in complaint for sign in _ANOTHER_GIT_AT_WORK):
            return GitBusy(self.root, complaint or f"exit code {code} without a reason")
        return GitFailed(self.root, complaint)


def _environment() -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _WHERE_GIT_AND_ITS_SETTINGS_ARE
    }
    # Git, too, looks for programs while the data directory is current.
    path = {"PATH": search_path(inherited.get("PATH", os.defpath))}
    return inherited | _ENVIRONMENT | path


def _end(process: subprocess.Popen[bytes]) -> None:
    # Asked kindly first: a git that is killed outright leaves its index.lock behind.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)
        os.killpg(process.pid, signal.SIGKILL)


def _first_complaint(text: str) -> str:
    for line in text.splitlines():
        if line.startswith(("error: ", "fatal: ")):
            return line.partition(": ")[2].rstrip(".")
    return ""
