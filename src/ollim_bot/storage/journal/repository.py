"""The git repository that a folder itself is: what changed in it, and committing some of that."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from ollim_bot.plain_files import Largest, TooLarge, unfitness
from ollim_bot.storage.journal.git import Git, GitFailed, GitRefuses, GitUnfinished

_UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
_CONFLICTS = frozenset(("DD", "AU", "UD", "UA", "DU", "AA", "UU"))
_AT_THE_TOP = b"true\n\n"
_PATHS_FROM_STDIN = ("--pathspec-from-file=-", "--pathspec-file-nul")
_MOST_REFUSALS = 200
_READ_BY_GIT = frozenset((".gitignore", ".gitattributes", ".gitmodules"))


@dataclass(frozen=True, slots=True)
class Change:
    """A file that differs from the last commit, by its path below the root.

    `staged` tells that the index already holds what the folder holds.
    """

    path: PurePosixPath
    staged: bool


@dataclass(frozen=True, slots=True)
class Repository:
    git: Git
    folder: Path

    @classmethod
    def opened(cls, git: Git) -> Repository:
        """The repository of the folder itself, never one around it; made if there is none."""
        if not has_repository(git.root):
            git.run("init", "--quiet", "--template=")
        folder = _own_git_folder(git)
        there = (f"--git-dir={folder}", f"--work-tree={git.root}")
        return cls(replace(git, options=there), folder)

    def changes(self) -> list[Change]:
        """What differs from the last commit, without ignored files and other repositories.

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
            Change(PurePosixPath(entry[3:]), staged=entry[1] == " ")
            for entry in entries
            if not (entry.endswith("/") or self._is_untracked_on_purpose(entry))
        ]

    def stage(self, paths: Sequence[PurePosixPath]) -> dict[PurePosixPath, str]:
        """Put the files into the index. The ones that git will not take are returned, with why."""
        refused: dict[PurePosixPath, str] = {}
        for path in paths:
            unfit = unfitness(self.git.root / path, Largest.IN_HISTORY)
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
        """Pack what has piled up, if it is much. A commit does not do this: it would be held up."""
        self.git.run("gc", "--auto", "--quiet")

    def _refuse_to_wait(self) -> None:
        """Git opens these wherever it finds them, and would wait at a pipe until it is stopped."""
        root = self.git.root
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name != ".git"]
            for name in _READ_BY_GIT.intersection(names):
                path = Path(folder, name)
                if unfit := unfitness(path, Largest.IGNORED):
                    where = path.relative_to(root)
                    raise GitFailed(root, f"{where} is {unfit.reason}; move it away")

    def _is_untracked_on_purpose(self, entry: str) -> bool:
        return entry[:2] == "D " and os.path.lexists(self.git.root / entry[3:])

    def _is_unfinished(self) -> bool:
        return any((self.folder / name).exists() for name in _UNFINISHED)


def has_repository(folder: Path) -> bool:
    """Whether the folder is a repository itself. One half made by a crash is none."""
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
