"""Rewrites the history of the data directory so that no version has certain words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ollim_bot.domain.forgetting import FORGOTTEN, Passage
from ollim_bot.errors import OllimError
from ollim_bot.plain_files import read_file
from ollim_bot.store.journal import Git, GitTrouble, Repository, has_repository

_LIMIT = 600.0
_DATA = re.compile(rb"data (\d+)")
# A change of a file in a commit; the path comes last.
_FILE_CHANGE = re.compile(rb"(M [0-7]+ \S+ |D )(.*)", re.DOTALL)
_OBJECT = re.compile(rb"[0-9a-f]{40,64} (blob|commit|tag|tree) (\d+)")
_LARGEST_NOTE = 1024 * 1024


class HistoryText:
    """The history of a data directory. `folder` need not be a repository: then it has no words."""

    def __init__(self, folder: Path) -> None:
        self._root = Path(os.path.realpath(folder))
        self._repository: Repository | None = None
        if has_repository(self._root):
            self._repository = Repository.opened(Git(self._root, limit=_LIMIT))

    def count(self, passage: Passage) -> int:
        """How many versions of files, messages and names have the words, also unreachable ones."""
        if self._repository is None:
            return 0
        listed = self._repository.git.run("cat-file", "--batch-all-objects", "--batch")
        found = sum(_has(passage, content) for content in _objects(listed))
        return found + len(self._notes_with(passage))

    def rewrite(self, passage: Passage) -> None:
        """Replace the words in all versions, messages and names. Files in the folder stay.

        A kill leaves the former or the new history. Raises `OllimError`.
        """
        if self._repository is None:
            return
        git = self._repository.git
        if not git.run("for-each-ref", "--count=1"):
            return
        self._repository.changes()  # raises while a merge or rebase is unfinished
        _refuse_detached(git)
        stream = git.run("fast-export", "--all", "--signed-tags=strip", "--reencode=no")
        git.run("fast-import", "--force", "--quiet", given=_without(stream, passage))
        for line in git.run("for-each-ref", "--format=%(refname)").decode().splitlines():
            after = passage.cut_from_name(line)
            if after != line:
                git.run("update-ref", after, line)
                git.run("update-ref", "-d", line)

    def prune(self, passage: Passage) -> None:
        """Remove every version that the history does not have any more. Raises `GitTrouble`."""
        if self._repository is None:
            return
        git = self._repository.git
        if git.run("for-each-ref", "--count=1"):
            # The index still names the former versions.
            git.run("read-tree", "HEAD")
        for path in self._notes_with(passage):
            path.unlink(missing_ok=True)
        for name in ("ORIG_HEAD", "FETCH_HEAD"):
            (self._repository.folder / name).unlink(missing_ok=True)
        git.run("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
        git.run("gc", "--prune=now", "--quiet")

    def _notes_with(self, passage: Passage) -> list[Path]:
        """The files that git keeps beside its objects, such as the last message."""
        if self._repository is None:
            return []
        folder = self._repository.folder
        names = [path for path in folder.iterdir() if path.name.isupper()]
        logs = [path for path in (folder / "logs").rglob("*") if path.is_file()]
        found = []
        for path in (*names, *logs):
            with suppress(OSError):
                if path.is_file() and _has(passage, read_file(path, _LARGEST_NOTE)):
                    found.append(path)
        return found


def _refuse_detached(git: Git) -> None:
    try:
        git.run("symbolic-ref", "--quiet", "HEAD")
    except GitTrouble:
        raise OllimError(
            f"The history of {git.root} is at a single version. Run `git switch main` there first."
        ) from None


def _objects(listed: bytes) -> Iterator[bytes]:
    place = 0
    while place < len(listed):
        end = listed.index(b"\n", place)
        head = _OBJECT.fullmatch(listed, place, end)
        if head is None:  # an object that is missing or damaged has no content
            place = end + 1
            continue
        begin, size = end + 1, int(head[2])
        yield listed[begin : begin + size]
        place = begin + size + 1


def _has(passage: Passage, content: bytes) -> bool:
    try:
        return passage.is_in(content.decode())
    except UnicodeDecodeError:
        return passage.raw.search(content) is not None


def _without(stream: bytes, passage: Passage) -> bytes:
    """The history as `git fast-export` writes it, without the words."""
    parts: list[bytes] = []
    place = 0
    while place < len(stream):
        end = stream.find(b"\n", place)
        end = len(stream) if end < 0 else end
        line, place = stream[place:end], end + 1
        data = _DATA.fullmatch(line)
        if data is None:
            parts.append(_line_without(line, passage) + b"\n")
            continue
        content = _content_without(stream[place : place + int(data[1])], passage)
        place += int(data[1])
        parts.append(b"data %d\n%s" % (len(content), content))
    return b"".join(parts)


def _content_without(content: bytes, passage: Passage) -> bytes:
    try:
        return passage.cut_from(content.decode()).encode()
    except UnicodeDecodeError:
        return passage.raw.sub(FORGOTTEN.encode(), content)


def _line_without(line: bytes, passage: Passage) -> bytes:
    change = _FILE_CHANGE.fullmatch(line)
    if change is None:
        return line
    name = change[2].decode(errors="surrogateescape")
    return change[1] + passage.cut_from_name(name).encode(errors="surrogateescape")
