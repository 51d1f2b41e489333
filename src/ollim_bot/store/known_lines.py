"""Reads the files in which the bot remembers things, with the history of each line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, tzinfo
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ollim_bot.domain.about_me import KnownLine, in_reading_order, is_about_me, source_in
from ollim_bot.errors import OllimError
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit, read_file
from ollim_bot.store.journal import Git, GitTrouble, has_repository

_NO_COMMIT = "0" * 40
_SEPARATOR = b"\0\0"


class _Commit(NamedTuple):
    at: datetime
    message: str


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
    return in_reading_order(found)


def known_lines(
    paths: DataPaths, zone: tzinfo, problems: list[str] | None = None
) -> list[KnownLine]:
    """Every line that has words. A file that cannot be read is a sentence in `problems`."""
    git = _history(paths)
    found: list[KnownLine] = []
    for file in memory_files(paths):
        try:
            text = read_file(paths.root / file, SizeLimit.JOB).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as refused:
            reason = getattr(refused, "strerror", None) or "it is not UTF-8 text"
            if problems is not None:
                problems.append(f"{file} cannot be read: {reason}.")
            continue
        origins = _origins(git, file, paths.root / file, zone)
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                day, source = origins.get(number, (None, ""))
                found.append(KnownLine(str(file), number, line.strip(), day, source))
    return found


def _history(paths: DataPaths) -> Git | None:
    """The history; None if there is none."""
    if not has_repository(paths.root):
        return None
    with suppress(OllimError, OSError):
        return Git(Path(os.path.realpath(paths.root))).opened()
    return None


def _origins(
    git: Git | None, file: PurePosixPath, path: Path, zone: tzinfo
) -> Mapping[int, tuple[date | None, str]]:
    """The day and the source of each line by its number; what no commit has is of the last save."""
    saved = datetime.fromtimestamp(path.stat().st_mtime, UTC).astimezone(zone).date()
    try:
        commits = {} if git is None else dict(_blamed(git, file))
        known = _messages(git, {*commits.values()}) if git and commits else {}
    except GitTrouble:
        commits, known = {}, {}
    with open(path, "rb") as content:
        count = content.read().count(b"\n") + 1
    origins: dict[int, tuple[date | None, str]] = {}
    for number in range(1, count + 1):
        commit = known.get(commits.get(number, _NO_COMMIT))
        if commit is None:
            origins[number] = saved, ""
        else:
            origins[number] = (
                commit.at.astimezone(zone).date(),
                source_in(commit.message, str(file)),
            )
    return origins


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
