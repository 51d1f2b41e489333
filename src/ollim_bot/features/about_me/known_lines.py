"""The files in which the bot remembers things: each line with its history, changed or removed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.changes.file_changes import FileChanges
from ollim_bot.kernel.store.files import SHARED, FileLock, OsDisk, replace_unchanged
from ollim_bot.kernel.store.journal import Git, GitTrouble, has_repository
from ollim_bot.kernel.values.about_me import KnownLine, source_in
from ollim_bot.kernel.values.changes import Changer
from ollim_bot.kernel.values.shared_files import ProfileFile

_NO_COMMIT = "0" * 40
_SEPARATOR = b"\0\0"
_NOT_ABOUT_ME = frozenset((*(f"{kind}s" for kind in JobKind), "state", "downloads"))
_OTHER_FILES = frozenset(("tasks.md", "routine-reminder-spec.md", "webhook-spec.md"))


class _Commit(NamedTuple):
    at: datetime
    message: str


def is_about_me(path: PurePosixPath) -> bool:
    """Whether a file below the data directory is one in which the bot remembers things."""
    parts = path.parts
    if path.suffix.lower() != ".md" or any(part.startswith(".") for part in parts):
        return False
    return parts[0] not in _NOT_ABOUT_ME and str(path) not in _OTHER_FILES


def memory_files(paths: DataPaths) -> list[PurePosixPath]:
    """The files, by their paths below the data directory; links are left out."""
    found: list[PurePosixPath] = []
    for folder, folders, names in os.walk(paths.root):
        place = Path(folder).relative_to(paths.root)
        folders[:] = [
            each for each in folders if is_about_me(PurePosixPath(place / each / "any.md"))
        ]
        for name in names:
            relative = PurePosixPath(place / name)
            if is_about_me(relative) and not os.path.islink(Path(folder, name)):
                found.append(relative)
    # The profile first, then the skills, then everything else.
    first = {ProfileFile.USER.value: 0, ProfileFile.IDENTITY.value: 1}
    return sorted(
        found, key=lambda each: (first.get(str(each), 2), each.parts[0] != "skills", str(each))
    )


def known_lines(
    paths: DataPaths, zone: tzinfo, problems: list[str] | None = None
) -> list[KnownLine]:
    """Every line that has words. A file that cannot be read is a sentence in `problems`."""
    git: Git | None = None
    with suppress(OllimError, OSError):
        git = (
            Git(Path(os.path.realpath(paths.root))).opened() if has_repository(paths.root) else None
        )
    found: list[KnownLine] = []
    for file in memory_files(paths):
        try:
            text = read_file(paths.root / file, SizeLimit.JOB).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as refused:
            reason = getattr(refused, "strerror", None) or "it is not UTF-8 text"
            if problems is not None:
                problems.append(f"{file} cannot be read: {reason}.")
            continue
        name, saved = str(file), datetime.fromtimestamp((paths.root / file).stat().st_mtime, UTC)
        commits = _origins(git, file)
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                # What no commit has is of the last save.
                commit = commits.get(number, _Commit(saved, ""))
                day, source = commit.at.astimezone(zone).date(), source_in(commit.message, name)
                found.append(KnownLine(name, number, line.strip(), day, source))
    return found


def _origins(git: Git | None, file: PurePosixPath) -> Mapping[int, _Commit]:
    """The commit of each line by its number."""
    if git is None:
        return {}
    with suppress(GitTrouble):
        commits = dict(_blamed(git, file))
        known = _messages(git, {*commits.values()})
        return {number: known[name] for number, name in commits.items() if name in known}
    return {}


def _blamed(git: Git, file: PurePosixPath) -> Iterator[tuple[int, str]]:
    """The number of each line, and the commit that brought it."""
    is_head = True
    for row in git.run("blame", "--porcelain", "--", str(file)).split(b"\n"):
        if row.startswith(b"\t"):
            is_head = True
        elif is_head and row:
            commit, _, number = row.split()[:3]
            yield int(number), commit.decode()
            is_head = False


def _messages(git: Git, commits: set[str]) -> Mapping[str, _Commit]:
    wanted = sorted(commits - {_NO_COMMIT})
    if not wanted:
        return {}
    told = git.run(
        "log",
        "--no-walk=unsorted",
        "--format=tformat:%H%x00%at%x00%B%x00",
        "-z",
        "--stdin",
        given="\n".join(wanted).encode(),
    )
    found: dict[str, _Commit] = {}
    for entry in told.split(_SEPARATOR):
        name, _, rest = entry.strip(b"\0\n").partition(b"\0")
        at, _, message = rest.partition(b"\0")
        if name and at.isdigit():
            moment = datetime.fromtimestamp(int(at), UTC)
            found[name.decode()] = _Commit(moment, message.decode(errors="replace"))
    return found


def text_of(paths: DataPaths, file: str) -> str:
    return read_file(paths.root / file, SizeLimit.JOB).decode("utf-8")


def change_lines(
    paths: DataPaths,
    file: str,
    lines: Sequence[KnownLine],
    words: str | None = None,
    changes: FileChanges | None = None,
) -> bool:
    """Give the lines of one file these words, or remove them for None.

    With `changes`, that is kept as a change of the page. False, and nothing is done, if one of the
    lines has changed since.
    """
    path = paths.root / file
    with FileLock(paths.lock_of(paths.root / PurePosixPath(file).parts[0])).held():
        before = text_of(paths, file)
        if not all(_is_there(before, line) for line in lines):
            return False
        after = without_lines(before, [line.number for line in lines])
        if words is not None:
            after = _with_line(before, lines[0].number, words)
        if after == before:
            return True
        key, is_replaced = changes.leave(file, after, Changer.PAGE) if changes else "", False
        try:
            is_replaced = replace_unchanged(OsDisk(), path, before.encode(), after.encode(), SHARED)
        finally:
            if changes is not None and not is_replaced:
                changes.drop(key)
        return is_replaced


def _is_there(text: str, line: KnownLine) -> bool:
    now = text.removeprefix("\ufeff").split("\n")
    return len(now) >= line.number and now[line.number - 1].strip() == line.text


def without_lines(text: str, numbers: Sequence[int]) -> str:
    """The text without these lines."""
    gone = set(numbers)
    lines = text.split("\n")
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in gone)


def _with_line(text: str, number: int, words: str) -> str:
    """The text with these words as the line of this number, which keeps its indent and its end."""
    lines = text.split("\n")
    line = lines[number - 1]
    mark = "\ufeff" if line.startswith("\ufeff") else ""
    inner = line.removeprefix(mark)
    indent, end = inner[: len(inner) - len(inner.lstrip())], inner[len(inner.rstrip()) :]
    lines[number - 1] = f"{mark}{indent}{words}{end}"
    return "\n".join(lines)
