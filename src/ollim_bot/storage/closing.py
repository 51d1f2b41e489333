"""Closes the data directory to the other accounts of the machine, and says what stood open."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ollim_bot.data_paths import DataPaths
from ollim_bot.plain_files import open_file

_OTHERS = 0o077


class Closing(NamedTuple):
    """`mended` says what stood open until now, `problems` what still does; both in sentences."""

    mended: str = ""
    problems: tuple[str, ...] = ()


def close_to_others(paths: DataPaths, home: Path | None = None) -> Closing:
    """The directory, `state/` and every file in that. Nothing here is a reason not to start.

    A folder that is more than a data directory, such as `home` or one for all, stays as it is.
    """
    problems: list[str] = []
    opened: list[str] = []
    for folder in (paths.root, paths.state):
        shown = str(folder) if folder == paths.root else f"{folder.name}/"
        try:
            if _closed(folder, home or Path.home()):
                opened.append(shown)
        except OSError as refused:
            problems.append(
                f"Others on this machine can look into {folder}, and it could not be closed to "
                f"them: {refused.strerror}. Move the data to a folder of your own."
            )
    if files := sum(_closed_files(paths.state)):
        opened.append("a file in state/" if files == 1 else f"{files} files in state/")
    if os.stat(paths.root).st_uid != os.geteuid():
        problems.append(
            f"{paths.root} belongs to another account, which can read and change all of it. "
            "Have the bot run as that one, or make the folder its own."
        )
    if not opened:
        return Closing("", tuple(problems))
    listed = " and ".join(filter(None, [", ".join(opened[:-1]), opened[-1]]))
    return Closing(
        f"Others on this machine could look into {listed} until now. That is closed to them; "
        "if you do not trust them, renew your keys.",
        tuple(problems),
    )


def open_files(state: Path) -> Iterator[Path]:
    """The files below `state` that others may read or write, as far as the files themselves say."""
    for folder, _, names in os.walk(state):
        for name in names:
            path = Path(folder, name)
            try:
                status = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and status.st_mode & _OTHERS:
                yield path


def _closed(folder: Path, home: Path) -> bool:
    """Whether it was open. Raises `OSError` if it still is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not status.st_mode & _OTHERS:
            return False
        if status.st_mode & stat.S_ISVTX or _holds(folder, home):
            raise PermissionError(0, "it is not for this data alone")
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~_OTHERS)
        if os.fstat(descriptor).st_mode & _OTHERS:
            raise PermissionError(0, "its disk knows no permissions")
        return True
    finally:
        os.close(descriptor)


def _holds(folder: Path, home: Path) -> bool:
    return Path(os.path.realpath(home)).is_relative_to(os.path.realpath(folder))


def _closed_files(state: Path) -> Iterator[bool]:
    for path in open_files(state):
        try:
            descriptor = open_file(path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & ~_OTHERS)
            yield True
        except OSError:
            continue
        finally:
            os.close(descriptor)
