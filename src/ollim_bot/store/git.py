"""Runs git on the data directory."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from ollim_bot.environment import program_path, search_path
from ollim_bot.errors import OllimError
from ollim_bot.plain_files import SizeLimit, TooLarge, unsuitable_file

_SETTINGS = (
    "commit.gpgsign=false",
    "core.fsmonitor=false",
    # A power cut must not leave empty objects; this flushes them together.
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
    """Git failed; the files are unchanged."""


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
    """Another git is at work in the same repository, or the files changed while git read them."""

    def __init__(self, root: Path, words: str) -> None:
        super().__init__(
            f"Another git is busy in {root}: {words}. Changes are kept, and it is tried again. "
            "If no other git runs there, remove its lock file."
        )


class GitRefuses(GitTrouble):
    """Git refuses to work here at all, for example because the folder belongs to another user."""

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
    niceness: int = 0

    def run(self, command: str, *arguments: str, given: bytes = b"") -> bytes:
        """Run git and return its output.

        Raises `GitTrouble` if it fails or exceeds the time limit.
        """
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
            # A session of its own has no terminal to prompt on, and Ctrl-C does not reach it.
            process = subprocess.Popen(
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
        if self.niceness:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, process.pid, self.niceness)
        return process

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
    # Git also searches PATH while the data directory is the current one.
    path = {"PATH": search_path(inherited.get("PATH", os.defpath))}
    return inherited | _ENVIRONMENT | path


def _end(process: subprocess.Popen[bytes]) -> None:
    # Terminate first: a git that is killed at once leaves its index.lock behind.
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


_UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
_CONFLICTS = frozenset(("DD", "AU", "UD", "UA", "DU", "AA", "UU"))
_AT_THE_TOP = b"true\n\n"
_PATHS_FROM_STDIN = ("--pathspec-from-file=-", "--pathspec-file-nul")
_MOST_REFUSALS = 200
_READ_BY_GIT = frozenset((".gitignore", ".gitattributes", ".gitmodules"))


@dataclass(frozen=True, slots=True)
class WorktreeChange:
    """A file that differs from the last commit, by its path below the root.

    `staged` says that the index already has the content of the folder.
    """

    path: PurePosixPath
    staged: bool


@dataclass(frozen=True, slots=True)
class Repository:
    git: Git
    folder: Path

    @classmethod
    def opened(cls, git: Git) -> Repository:
        """The repository of the folder itself, never of a parent; created if there is none."""
        if not has_repository(git.root):
            git.run("init", "--quiet", "--template=")
        folder = _own_git_folder(git)
        there = (f"--git-dir={folder}", f"--work-tree={git.root}")
        return cls(replace(git, options=there), folder)

    def changes(self) -> list[WorktreeChange]:
        """The files that differ from the last commit, except ignored files and other repositories.

        Raises `GitUnfinished` while a merge, a rebase or a conflict waits for its owner.
        """
        self._refuse_to_wait()
        listed = self.git.run(
            "status", "--porcelain", "-z", "-uall", "--no-renames", "--ignore-submodules=all"
        )
        entries = [os.fsdecode(entry) for entry in listed.split(b"\0") if entry]
        if self._is_unfinished() or any(entry[:2] in _CONFLICTS for entry in entries):
            raise GitUnfinished(self.git.root)
        return [
            WorktreeChange(PurePosixPath(entry[3:]), staged=entry[1] == " ")
            for entry in entries
            if not (entry.endswith("/") or self._is_untracked_on_purpose(entry))
        ]

    def stage(self, paths: Sequence[PurePosixPath]) -> dict[PurePosixPath, str]:
        """Put the files into the index. Returns those that git refuses, with the reason."""
        refused: dict[PurePosixPath, str] = {}
        for path in paths:
            unfit = unsuitable_file(self.git.root / path, SizeLimit.IN_HISTORY)
            if isinstance(unfit, TooLarge):
                refused[path] = f"it is {unfit.reason}"
        failures = 0
        fit = [path for path in paths if path not in refused]
        parts: list[Sequence[PurePosixPath]] = [fit] if fit else []
        while parts:
            part = parts.pop()
            try:
                self.git.run("add", *_PATHS_FROM_STDIN, given=_as_input(part))
            except GitFailed as failure:
                failures += 1
                if failures > _MOST_REFUSALS:
                    raise
                if len(part) == 1:
                    refused[part[0]] = failure.words
                else:
                    parts += [part[: len(part) // 2], part[len(part) // 2 :]]
        return refused

    def commit(self, paths: Iterable[PurePosixPath], message: str) -> None:
        """Commit these files as they are now, and nothing else that may be staged."""
        text = self.folder / "OLLIM_BOT_MESSAGE"
        text.write_text(message, encoding="utf-8", errors="backslashreplace")
        try:
            self.git.run(
                "commit",
                "--quiet",
                "--only",
                "--no-verify",
                "--cleanup=verbatim",
                f"--file={text}",
                *_PATHS_FROM_STDIN,
                given=_as_input(paths),
            )
        finally:
            text.unlink(missing_ok=True)

    def tidy(self) -> None:
        """Pack loose objects if there are many.

        A commit does not do this, as it would take longer.
        """
        self.git.run("gc", "--auto", "--quiet")

    def _refuse_to_wait(self) -> None:
        """Refuse unsuitable files that git reads: at a pipe, git would wait until stopped."""
        root = self.git.root
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name != ".git"]
            for name in _READ_BY_GIT.intersection(names):
                path = Path(folder, name)
                if unfit := unsuitable_file(path, SizeLimit.IGNORED):
                    where = path.relative_to(root)
                    raise GitFailed(root, f"{where} is {unfit.reason}; move it away")

    def _is_untracked_on_purpose(self, entry: str) -> bool:
        return entry[:2] == "D " and os.path.lexists(self.git.root / entry[3:])

    def _is_unfinished(self) -> bool:
        return any((self.folder / name).exists() for name in _UNFINISHED)


def has_repository(folder: Path) -> bool:
    """Whether the folder itself is a repository. A half-created one does not count."""
    dot_git = folder / ".git"
    return dot_git.is_file() or os.path.lexists(dot_git / "HEAD")


def _own_git_folder(git: Git) -> Path:
    try:
        found = git.run("rev-parse", "--is-inside-work-tree", "--show-prefix", "--absolute-git-dir")
    except GitFailed as failure:
        raise GitRefuses(git.root, failure.words) from None
    if not found.startswith(_AT_THE_TOP):
        raise GitRefuses(git.root, f"{git.root / '.git'} is not a repository")
    return Path(os.fsdecode(found.removeprefix(_AT_THE_TOP).removesuffix(b"\n")))


def _as_input(paths: Iterable[PurePosixPath]) -> bytes:
    return b"\0".join(os.fsencode(path) for path in paths)
