"""Checks of the data directory as a folder: who may use it, what is missing, what is left over."""

from __future__ import annotations

import os
import shlex
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.moments import describe, duration_in_words
from ollim_bot.domain.text import counted
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import UnsuitableFile, opened_file
from ollim_bot.settings import CHANNELS
from ollim_bot.store.data_directory import (
    add_ignored,
    close_to_others,
    displaced_links,
    lost_links,
    missing_ignored,
    remake_links,
)
from ollim_bot.upkeep.doctor import DoctorFinding, failed, passed, warned
from ollim_bot.upkeep.hand_over import interrupted_maintenance

May = Callable[[Path, int], bool]
_ALL_BITS = os.R_OK | os.W_OK | os.X_OK
_OTHERS = 0o077
_SALVAGED = ".ollim.db.salvaged"
_HOUR = 3600.0
_KEPT_AFTER_RESTORE = timedelta(days=7)
_MB = 1000**2
_MUCH = 5000 * _MB


def data_directory(paths: DataPaths, may: May = os.access) -> Iterator[DoctorFinding]:
    if not paths.root.exists():
        yield _not_there(paths.root, may)
        return
    below = (paths.state, paths.locks, *map(paths.jobs, JobKind), paths.skills)
    folders = [paths.root, *(folder for folder in below if folder.exists())]
    closed = [folder for folder in folders if not may(folder, _ALL_BITS)]
    for folder in closed:
        step = f"Run `chmod u+rwx {shown(folder)}`, as the account that it belongs to."
        yield failed(f"{folder} cannot be read and written", step, partial(_open_to_owner, folder))
    yield from _open_to_others(paths)
    if closed:
        return
    if paths.locks.exists():
        for lock in sorted(paths.locks.iterdir()):
            if not stat.S_ISREG(lock.lstat().st_mode):
                wrong = "is not a file, so what it guards cannot be changed"
                mend = partial(_remove_lock, lock)
                yield failed(
                    f"state/.locks/{lock.name} {wrong}", f"Run `rm -r {shown(lock)}`.", mend
                )
    yield from _links(paths)
    yield from _ignored(paths)
    yield passed(f"{paths.root} can be written")


def _not_there(root: Path, may: May) -> DoctorFinding:
    above = next(folder for folder in root.parents if folder.exists())
    if may(above, _ALL_BITS):
        return passed(f"{root} is not there yet; the first start makes it")
    step = f"Run `chmod u+rwx {shown(above)}`, or set OLLIM_DATA_DIR to a folder of yours."
    return failed(f"{root} is not there and cannot be made", step)


def _open_to_owner(folder: Path) -> str:
    folder.chmod(stat.S_IMODE(folder.stat().st_mode) | stat.S_IRWXU)
    return f"{folder} can be read and written again"


def _open_to_others(paths: DataPaths) -> Iterator[DoctorFinding]:
    def close() -> str:
        return close_to_others(paths).mended

    open_folders = [each for each in (paths.root, paths.state) if is_open_to_others(each)]
    for folder in open_folders:
        others = f"others on this machine can look into {folder}"
        yield warned(others, f"Run `chmod 700 {shown(folder)}`.", close)
    # A closed folder protects the files in it.
    is_way_open = len(open_folders) == 2
    opened = [path for path in files_below(paths.state) if is_way_open and is_open_to_others(path)]
    if opened:
        more = f" and {len(opened) - 1} more" if len(opened) > 1 else ""
        step = f"Run `chmod -R go= {shown(paths.state)}`."
        yield warned(f"others may read {opened[0]}{more}", step, close)
    if paths.root.stat().st_uid != os.geteuid():
        yield warned(
            f"{paths.root} belongs to another account, which can read and change all of it",
            f"Run the bot as that account, or run `sudo chown -R $USER {shown(paths.root)}`.",
        )


def is_open_to_others(path: Path) -> bool:
    try:
        return bool(stat.S_IMODE(path.stat().st_mode) & _OTHERS)
    except OSError:
        return False


def open_to_others(path: Path) -> Iterator[DoctorFinding]:
    """Whether others may read a file of `state/`."""
    if is_open_to_others(path):
        others = f"others on this machine can read state/{path.name}"
        yield warned(others, f"Run `chmod 600 {path}`.", partial(close_file, path))


def close_file(path: Path) -> str:
    """Let only the owner read a file; a link is left alone. Raises `OSError`."""
    with opened_file(path, os.O_RDONLY | os.O_NOFOLLOW) as descriptor:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if not mode & _OTHERS:
            return ""
        os.fchmod(descriptor, mode & ~_OTHERS)
    return f"only you can read {path} now"


def files_below(folder: Path) -> Iterator[Path]:
    """The files of all folders below, without links."""
    for where, _, names in os.walk(folder):
        yield from (path for name in names if not (path := Path(where, name)).is_symlink())


def shown(path: Path) -> str:
    """The path as a shell takes it."""
    return shlex.quote(str(path))


def _remove_lock(lock: Path) -> str:
    """Remove a lock that is not a file, since it cannot be held. A folder with content stays."""
    mode = lock.lstat().st_mode
    if stat.S_ISREG(mode):
        return ""
    if stat.S_ISDIR(mode):
        lock.rmdir()
    else:
        lock.unlink()
    return f"state/.locks/{lock.name}, which was not a file, is removed"


def _links(paths: DataPaths) -> Iterator[DoctorFinding]:
    def relink() -> str:
        made = remake_links(paths)
        names = _joined(path.relative_to(paths.root) for path in made)
        return f"{names} made again" if made else ""

    if lost := lost_links(paths):
        names = _joined(path.relative_to(paths.root) for path in lost)
        wrong = f"links that are missing or lead elsewhere: {names}"
        yield warned(wrong, "The next start makes them again.", relink)
    for link in displaced_links(paths):
        name = link.relative_to(paths.root)
        yield warned(
            f"{name} is yours, and so the agent does not find there what it looks for",
            f"Run `mv {shown(link)} {shown(link)}.mine`, then `ollim-bot doctor --fix`.",
        )


def _ignored(paths: DataPaths) -> Iterator[DoctorFinding]:
    def add() -> str:
        added = add_ignored(paths)
        return f"{_joined(added)} added to .gitignore" if added else ""

    try:
        missing = missing_ignored(paths)
    except UnsuitableFile as unfit:
        step = f"Run `mv {shown(paths.gitignore)} {shown(paths.gitignore)}.old`."
        yield warned(f".gitignore is {unfit.reason}", step)
        return
    if missing:
        lacks = f".gitignore lacks {_joined(missing)}"
        risk = "your own `git add` may take in what is private"
        yield warned(f"{lacks}: {risk}", "Add the lines.", add)


def _joined(names: Iterable[object]) -> str:
    words = [str(name) for name in names]
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def leftovers(paths: DataPaths, now: datetime) -> Iterator[DoctorFinding]:
    """What was set aside for the owner, and what a killed program left behind."""
    is_clean = True
    for path, what, remove in _left_for_owner(paths, now):
        is_clean = False
        age = duration_in_words(max(now - _stamped(path), timedelta(0)))
        yield warned(f"{what} {age} ago", f"{remove} {shown(path)}`.")
    if record := interrupted_maintenance(paths):
        is_clean = False
        words = f"the {record.kind} of {describe(record.since, now)} was cut off"
        yield warned(words, f"Run `ollim-bot {record.kind}` again; it begins anew.")
    if unfinished := list(temporary_files(paths)):
        is_clean = False
        count, first = counted(len(unfinished), "file"), unfinished[0]
        left = f"{count} left behind by a write that was cut off, such as "
        step, mend = f"Run `rm {shown(first)}`.", partial(_remove_temporary, paths)
        yield warned(f"{left}{first.relative_to(paths.root)}", step, mend)
    if is_clean:
        yield passed("none")


def _left_for_owner(paths: DataPaths, now: datetime) -> Iterator[tuple[Path, str, str]]:
    """Each path, what it is, and how it is removed."""
    look = "Look whether you need something of it, then run"
    for pattern, what, remove in (
        ("*.corrupt-*", "could not be understood and was set aside", "rm -r"),
        ("*.unapplied-*", "is what the bot knew when a change by hand took its place", "rm"),
    ):
        for path in sorted([*paths.state.glob(pattern), *paths.calendars.glob(pattern)]):
            yield path, f"{path.parent.name}/{path.name} {what}", f"{look} `{remove}"
    for path in sorted(paths.root.parent.glob(f"{paths.root.name}.before-restore-*")):
        if now - _stamped(path) > _KEPT_AFTER_RESTORE:
            what = f"{path} is the data from before a restore"
            yield path, what, "If you need nothing of it, run `rm -r"


def _stamped(path: Path) -> datetime:
    """The moment in the name; else that of the last change."""
    text = path.name.rpartition("-")[2].removesuffix("Z").partition(".")[0]
    try:
        return datetime.strptime(text, "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return datetime.fromtimestamp(path.lstat().st_ctime, UTC)


def temporary_files(paths: DataPaths) -> Iterator[Path]:
    """Files of an atomic write that was cut off more than an hour ago.

    Elsewhere than in `state/`, which is the program's alone, only the names that its writes use.
    """
    own = (paths.identity, paths.user, paths.tasks, paths.mcp, paths.env_file, paths.gitignore)
    jobs = map(paths.jobs, JobKind)
    candidates = [
        *(path.with_name(f".{path.name}.tmp") for path in own),
        *(path for folder in jobs for path in sorted(folder.glob(".*.md.tmp"))),
    ]
    # What a person sent keeps its name below these.
    sent = {str(paths.attachments), *(str(paths.state / name) for name in ("uploads", *CHANNELS))}
    for where, below, names in os.walk(paths.state):
        below[:] = sorted(name for name in below if os.path.join(where, name) not in sent)
        candidates += [
            Path(where, name)
            for name in sorted(names)
            if name == _SALVAGED or (name.startswith(".") and name.endswith(".tmp"))
        ]
    yield from (path for path in candidates if is_older_than(path, _HOUR))


def is_older_than(path: Path, seconds: float) -> bool:
    """Whether a regular file was last written that long ago."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > seconds


def _remove_temporary(paths: DataPaths) -> str:
    found = list(temporary_files(paths))
    for path in found:
        path.unlink(missing_ok=True)
    return f"{counted(len(found), 'unfinished file')} removed" if found else ""


def received_files(paths: DataPaths, much: int = _MUCH) -> Iterator[DoctorFinding]:
    """The size of all that the owner sent; more than `much` bytes are worth a look."""
    sizes = {
        folder: [path.lstat().st_size for path in files_below(folder)]
        for folder in (paths.attachments, paths.downloads)
    }
    size, number = sum(map(sum, sizes.values())), sum(map(len, sizes.values()))
    count = f"{counted(number, 'file')} that you sent, {size // _MB} MB"
    if size > much:
        folder = max(sizes, key=lambda folder: sum(sizes[folder]))
        yield warned(count, f"Run `ls -lS {shown(folder)}`, and remove what you do not need.")
    else:
        yield passed(count)
