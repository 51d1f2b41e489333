"""Git repositories for tests of the journal, and scripts that replace git."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ollim_bot.kernel.store.files import FileLock
from ollim_bot.kernel.store.journal import GitJournal

COMMIT_IDENTITY = ("-c", "user.name=Somebody", "-c", "user.email=somebody@localhost")
REAL_GIT = shutil.which("git") or "git"


@dataclass
class GitFolder:
    """A folder, with git as a person would use it in there."""

    root: Path

    def write(self, name: str, text: str = "text\n") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def git(self, *arguments: str, succeeds: bool = True) -> str:
        done = subprocess.run(
            (REAL_GIT, *COMMIT_IDENTITY, *arguments),
            cwd=self.root,
            capture_output=True,
            check=succeeds,
            stdin=subprocess.DEVNULL,
        )
        return os.fsdecode(done.stdout)

    def messages(self) -> list[str]:
        """The messages of all commits, the newest first, without their last line end."""
        log = self.git("log", "-z", "--format=%B", succeeds=False)
        return [message.removesuffix("\n") for message in log.split("\0") if message]

    def committed(self, commit: str = "HEAD") -> set[str]:
        """The names that the commit added, changed or removed."""
        listed = self.git("show", "-z", "--format=", "--name-only", "--no-renames", commit)
        return {name for name in listed.split("\0") if name}

    def tracked(self) -> set[str]:
        return {n for n in self.git("ls-tree", "-rz", "--name-only", "HEAD").split("\0") if n}

    def become_repository(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def commit_by_hand(self, *names: str) -> None:
        for name in names:
            self.write(name)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--no-gpg-sign", "-m", "by a person")

    def leave_conflict(self, name: str, *join: str) -> None:
        """Change the file on two branches, and join them with the given git command."""
        self.commit_by_hand(name)
        self.git("checkout", "--quiet", "-b", "other")
        self.write(name, "there\n")
        self.git("commit", "--quiet", "--all", "-m", "there")
        self.git("checkout", "--quiet", "main")
        self.write(name, "here\n")
        self.git("commit", "--quiet", "--all", "-m", "here")
        self.git(*join, "other", succeeds=False)


@dataclass
class JournalScene(GitFolder):
    """A data directory, and journals for it that report into `problems`."""

    problems: list[str] = field(default_factory=list)

    def journal(
        self,
        *,
        git: Path | str = REAL_GIT,
        pause: float = 60.0,
        longest_pause: float = 60.0,
        time_limit: float = 30.0,
    ) -> GitJournal:
        return GitJournal(
            self.root,
            FileLock(self.root.parent / "journal.lock"),
            on_problem=self.problems.append,
            pause=pause,
            longest_pause=longest_pause,
            git=str(git),
            time_limit=time_limit,
        )


def git_script(path: Path, *lines: str) -> Path:
    """A shell script that runs instead of git; `$GIT` is the real git."""
    path.write_text("\n".join(("#!/bin/sh", f"GIT={REAL_GIT}", *lines, "")), encoding="utf-8")
    path.chmod(0o755)
    return path


def git_that_removes_lock(path: Path, lock: Path) -> Path:
    """A git that removes the lock file after a command has failed."""
    lines = ('"$GIT" "$@"', "code=$?", f"[ $code = 0 ] || rm -f '{lock}'", "exit $code")
    return git_script(path, *lines)


def eventually(holds: Callable[[], bool], within: float = 20.0) -> bool:
    end = time.monotonic() + within
    tick = threading.Event()
    while not holds() and time.monotonic() < end:
        tick.wait(0.01)
    return holds()
