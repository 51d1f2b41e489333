"""Changes or removes lines of the bot's notes, as long as they are what was shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from ollim_bot.domain.about_me import KnownLine
from ollim_bot.domain.changes import Changer
from ollim_bot.domain.forgetting import with_line, without_lines
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit, read_file
from ollim_bot.store.changes import FileChanges
from ollim_bot.store.files import SHARED, FileLock, OsDisk, replace_unchanged


def text_of(paths: DataPaths, file: str) -> str:
    return read_file(paths.root / file, SizeLimit.JOB).decode("utf-8")


def remove_lines(paths: DataPaths, file: str, lines: Sequence[KnownLine]) -> bool:
    """Remove these lines of one file; False, and nothing is done, if one of them has changed."""
    with _lock_of(paths, file).held():
        before = text_of(paths, file)
        if not all(_is_there(before, each) for each in lines):
            return False
        after = without_lines(before, [line.number for line in lines])
        return _replaced(paths, file, before, after)


def change_line(
    paths: DataPaths, line: KnownLine, words: str | None, changes: FileChanges, by: Changer
) -> bool:
    """Give the line these words, or remove it for None, and keep that as a change.

    False, and nothing is done, if the line has changed.
    """
    with _lock_of(paths, line.file).held():
        before = text_of(paths, line.file)
        if not _is_there(before, line):
            return False
        after = (
            without_lines(before, [line.number])
            if words is None
            else with_line(before, line.number, words)
        )
        if after == before:
            return True
        key = changes.leave(line.file, after, by)
        is_replaced = False
        try:
            is_replaced = _replaced(paths, line.file, before, after)
        finally:
            if not is_replaced:
                changes.drop(key)
        return is_replaced


def _lock_of(paths: DataPaths, file: str) -> FileLock:
    return FileLock(paths.lock_of(paths.root / PurePosixPath(file).parts[0]))


def _is_there(text: str, line: KnownLine) -> bool:
    now = text.removeprefix("\ufeff").split("\n")
    return len(now) >= line.number and now[line.number - 1].strip() == line.text


def _replaced(paths: DataPaths, file: str, before: str, after: str) -> bool:
    path = paths.root / file
    return replace_unchanged(OsDisk(), path, before.encode(), after.encode(), SHARED)
