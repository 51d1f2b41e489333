"""Whether the data directory can be used, and only by its owner."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ollim_bot.data_paths import DataPaths
from ollim_bot.upkeep.findings import Finding, failed, passed, warned

NAME = "data directory"
_ALL = os.R_OK | os.W_OK | os.X_OK
_OTHERS = 0o077
_SET_ASIDE = "*.corrupt-*"

May = Callable[[Path, int], bool]


def data_directory(paths: DataPaths, may: May = os.access) -> Iterator[Finding]:
    if not paths.root.exists():
        yield _not_there(paths.root, may)
        return
    closed = [folder for folder in _folders(paths) if not may(folder, _ALL)]
    for folder in closed:
        yield failed(
            NAME,
            f"{folder} cannot be read and written",
            f"Run `chmod u+rwx {_typed(folder)}`, as the account that it belongs to.",
        )
    yield from _open_to_others(paths)
    if paths.state not in closed:
        yield from map(_set_aside, sorted(paths.state.glob(_SET_ASIDE)))
    if not closed:
        yield passed(NAME, f"{paths.root} can be written")


def _open_to_others(paths: DataPaths) -> Iterator[Finding]:
    open_folders = [each for each in (paths.root, paths.state) if _is_open_to_others(each)]
    for folder in open_folders:
        yield warned(
            NAME,
            f"others on this machine can look into {folder}",
            f"Run `chmod 700 {_typed(folder)}`; the next start does so too.",
        )
    # Behind a closed folder nobody gets to them.
    is_way_open = len(open_folders) == 2
    opened = [path for path in _files(paths.state) if is_way_open and _is_open_to_others(path)]
    if opened:
        more = f" and {len(opened) - 1} more" if len(opened) > 1 else ""
        yield warned(
            NAME,
            f"others may read {opened[0]}{more}",
            f"Run `chmod -R go= {_typed(paths.state)}`; the next start does so too.",
        )
    if paths.root.stat().st_uid != os.geteuid():
        yield warned(
            NAME,
            f"{paths.root} belongs to another account, which can read and change all of it",
            "Run the bot as that account, or make the folder its own.",
        )


def _files(state: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(state):
        yield from (path for name in names if not (path := Path(folder, name)).is_symlink())


def _not_there(root: Path, may: May) -> Finding:
    above = next(folder for folder in root.parents if folder.exists())
    if may(above, _ALL):
        return passed(NAME, f"{root} is not there yet; the first start makes it")
    return failed(
        NAME,
        f"{root} is not there and cannot be made",
        f"Let {above} be written, or set OLLIM_DATA_DIR to a folder of yours.",
    )


def _folders(paths: DataPaths) -> Sequence[Path]:
    below = (paths.state, paths.locks, paths.routines, paths.reminders, paths.skills)
    return [paths.root, *(folder for folder in below if folder.exists())]


def _is_open_to_others(folder: Path) -> bool:
    try:
        return bool(stat.S_IMODE(folder.stat().st_mode) & _OTHERS)
    except OSError:
        return False


def _set_aside(path: Path) -> Finding:
    return warned(
        NAME,
        f"{path.parent.name}/{path.name} could not be understood once and was set aside",
        f"Look whether you need something of it, then run `rm {_typed(path)}`.",
    )


def _typed(path: Path) -> str:
    return shlex.quote(str(path))
