"""Creates the data directory, and closes it to other users."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit, UnsuitableFile, open_file
from ollim_bot.kernel.store.files import (
    SHARED,
    FileLock,
    OsDisk,
    create_atomically,
    write_atomically,
)
from ollim_bot.kernel.store.owner_files import install_subagents
from ollim_bot.kernel.values.ports import Disk

# The documents for the agent; the engine may read this folder.
TEXTS = Path(__file__).resolve().parent.parent / "texts"

_IGNORED = (
    "/state/*",
    "!/state/session_history.jsonl",
    "/downloads/",
    "/.env",
    "/.env.*",
    "/mcp.json",
    "/.claude/skills",
    "/routine-reminder-spec.md",
    "/webhook-spec.md",
    ".*.tmp",
)


class Preparation(NamedTuple):
    """`is_new` says that there was no data directory before; `problems` are sentences."""

    is_new: bool
    problems: tuple[str, ...] = ()


def prepare_data_directory(paths: DataPaths, disk: Disk | None = None) -> Preparation:
    """Create every missing folder, link and file that the program needs; existing ones stay.

    Raises `WriteFailed` if one cannot be created.
    """
    try:
        # Close these to other accounts of the machine, independent of the umask.
        for private in (paths.root, paths.state):
            private.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (
            *map(paths.jobs, JobKind),
            paths.skills,
            paths.downloads,
            paths.claude_agents,
            paths.attachments,
            paths.locks,
        ):
            folder.mkdir(parents=True, exist_ok=True)
        with FileLock(paths.lock_of(paths.root)).held():
            is_new = not paths.gitignore.exists()
            _make_links(paths)
            return Preparation(is_new, _make_files(paths, disk or OsDisk()))
    except OSError as refused:
        where = Path(refused.filename or paths.root)
        raise WriteFailed(where, f"could not be made: {refused.strerror}.") from refused


def lost_links(paths: DataPaths) -> list[Path]:
    """The program's links that are missing, lead nowhere, or lead into another installation."""
    return [link for link, target in _links(paths).items() if _is_lost(link, target)]


def displaced_links(paths: DataPaths) -> list[Path]:
    """The names of the program's links that something else has."""
    return [
        link
        for link, target in _links(paths).items()
        if not _is_lost(link, target) and link.resolve() != (link.parent / target).resolve()
    ]


def remake_links(paths: DataPaths) -> list[Path]:
    """Make the lost links anew; returns them."""
    with FileLock(paths.lock_of(paths.root)).held():
        lost = lost_links(paths)
        _make_links(paths)
        return lost


def _links(paths: DataPaths) -> dict[Path, Path]:
    texts = (paths.routine_spec_link, paths.webhook_spec_link)
    return {paths.claude_skills: Path("../skills"), **{link: TEXTS / link.name for link in texts}}


def _make_links(paths: DataPaths) -> None:
    for link, target in _links(paths).items():
        if _is_lost(link, target):
            link.parent.mkdir(exist_ok=True)
            link.unlink(missing_ok=True)
            with suppress(FileExistsError):
                link.symlink_to(target)


def _is_lost(link: Path, target: Path) -> bool:
    if not link.is_symlink():
        return not os.path.lexists(link)
    found = link.readlink()
    # An update may have left the former installation where it was; until 0.13 the texts lay higher.
    places = (target.parts[-3:], ("ollim_bot", "texts", target.name))
    is_of_another = found != target and found.parts[-3:] in places
    return is_of_another or not link.exists()


def _make_files(paths: DataPaths, disk: Disk) -> tuple[str, ...]:
    """Create the missing files; returns what is wrong with existing ones."""
    for profile in (paths.identity, paths.user):
        if not os.path.lexists(profile):
            create_atomically(disk, profile, (TEXTS / profile.name).read_bytes(), SHARED)
    install_subagents(paths.claude_agents, disk)
    try:
        _list_ignored(paths, disk)
    except UnsuitableFile as unfit:
        return (f"{paths.gitignore.name} is {unfit.reason}. Move it away; a new one is made then.",)
    return ()


def missing_ignored(paths: DataPaths, disk: Disk | None = None) -> list[str]:
    """The lines that the `.gitignore` lacks. Raises `UnsuitableFile` if it is no file."""
    present = set(_ignored(paths.gitignore, disk or OsDisk()).splitlines())
    return [line for line in _IGNORED if line not in present]


def add_ignored(paths: DataPaths) -> list[str]:
    """Append the missing lines to the `.gitignore`; returns them."""
    with FileLock(paths.lock_of(paths.root)).held():
        return _list_ignored(paths, OsDisk())


def _ignored(gitignore: Path, disk: Disk) -> str:
    try:
        return disk.read(gitignore, SizeLimit.IGNORED).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def _list_ignored(paths: DataPaths, disk: Disk) -> list[str]:
    """Append the missing lines, so that a person's own `git add -A` is safe."""
    missing = missing_ignored(paths, disk)
    if missing:
        text = _ignored(paths.gitignore, disk)
        start = text if not text or text.endswith("\n") else f"{text}\n"
        content = start + "".join(f"{line}\n" for line in missing)
        write_atomically(disk, paths.gitignore, content.encode("utf-8", "surrogateescape"), SHARED)
    return missing


_OTHERS = 0o077


class Closing(NamedTuple):
    """`mended` says what was open and is closed now, `problems` what is still open."""

    mended: str = ""
    problems: tuple[str, ...] = ()


def close_to_others(paths: DataPaths, home: Path | None = None) -> Closing:
    """Close the directory, `state/` and every file in it; a failure prevents no start.

    A folder that is more than a data directory, such as `home` or a shared one, stays as it is.
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
    """The files below `state` whose own mode lets others read or write them."""
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
    """Close the folder; True if it was open. Raises `OSError` if it still is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not status.st_mode & _OTHERS:
            return False
        if status.st_mode & stat.S_ISVTX or Path(os.path.realpath(home)).is_relative_to(
            os.path.realpath(folder)
        ):
            raise PermissionError(0, "it is not for this data alone")
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~_OTHERS)
        if os.fstat(descriptor).st_mode & _OTHERS:
            raise PermissionError(0, "its disk knows no permissions")
        return True
    finally:
        os.close(descriptor)


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
