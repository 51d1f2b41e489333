"""Finds words in the history of the data directory, and begins that history anew."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ollim_bot.domain.forgetting import Passage
from ollim_bot.errors import OllimError
from ollim_bot.plain_files import SizeLimit, read_file
from ollim_bot.store.files import OsDisk, write_atomically
from ollim_bot.store.journal import Git, has_repository

# What the owner has set up. All else in the folder of git is history.
SETTINGS = frozenset(("config", "config.worktree", "description", "hooks", "info"))
_LIMIT = 600.0
_HEAD, _REFS, _OBJECTS = _FRAME = ("HEAD", "refs", "objects")
_BRANCH = "ref: refs/heads/"


class HistoryText:
    """The history of a data directory. `root` need not be a repository: then it has no words.

    Raises `OllimError` if the history is not this folder's alone.
    """

    def __init__(self, root: Path) -> None:
        self._git = Git(Path(os.path.realpath(root)), limit=_LIMIT)
        self._folder = self._git.root / ".git"
        self._is_there = has_repository(self._git.root)
        if self._is_there:
            self._git = self._git.opened()
            self._folder = self._git.folder or self._folder
        if (self._folder / "commondir").exists():
            raise OllimError(
                f"The history of {root} is part of another repository, {self._folder}. "
                "Move its `.git` away first; the bot begins a new one."
            )

    def count(self, passage: Passage) -> int:
        """How many versions of files, messages and names have the words, also unreachable ones."""
        return sum(map(passage.is_in_bytes, (*self._objects(), *self._notes())))

    def remotes(self) -> list[str]:
        """The names of the repositories elsewhere, which may have the former history."""
        return self._git.run("remote").decode().split() if self._is_there else []

    def remove(self, passage: Passage) -> bool:
        """Remove all versions and names; False if there is no repository.

        The settings stay, and the next commit begins a new history. A kill leaves a history, or a
        repository without one; both can be committed to.
        """
        if not self._is_there:
            return False
        _remove(self._folder / "packed-refs", *(self._folder / _REFS).iterdir())
        branch = read_file(self._folder / _HEAD, SizeLimit.NOTE)
        if not branch.startswith(_BRANCH.encode()) or passage.is_in_bytes(branch):
            write_atomically(OsDisk(), self._folder / _HEAD, f"{_BRANCH}main\n".encode(), 0o644)
        # The index names objects, so it goes before they do.
        _remove(*(each for each in self._folder.iterdir() if each.name not in SETTINGS | {*_FRAME}))
        _remove(*(self._folder / _OBJECTS).iterdir())
        return True

    def _objects(self) -> Iterator[bytes]:
        listed, place = b"", 0
        if self._is_there:
            listed = self._git.run("cat-file", "--batch-all-objects", "--batch", "--unordered")
        while place < len(listed):
            end = listed.index(b"\n", place)
            size = listed[place:end].rpartition(b" ")[2]
            place = end + 1
            if size.isdigit():  # an object that is missing or damaged has no content
                yield listed[place : place + int(size)]
                place += int(size) + 1

    def _notes(self) -> Iterator[bytes]:
        """What git keeps beside its objects: names, logs, the index, the last message."""
        for path in self._folder.rglob("*") if self._is_there else ():
            relative = path.relative_to(self._folder)
            if relative.parts[0] not in SETTINGS | {_OBJECTS}:
                yield os.fsencode(relative)
                if path.is_file():
                    yield read_file(path, SizeLimit.LOG)


def _remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
