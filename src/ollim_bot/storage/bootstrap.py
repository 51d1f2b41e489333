"""Making the data directory, and mending it at every start without touching what people wrote."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ollim_bot.data_paths import DataPaths
from ollim_bot.errors import WriteFailed
from ollim_bot.plain_files import Largest, Unfit
from ollim_bot.ports import Disk
from ollim_bot.storage.files import SHARED, OsDisk, create_atomically, write_atomically
from ollim_bot.storage.locks import FileLock

# The documents that the agent reads; the engine is given this folder as a readable one.
TEXTS = Path(__file__).resolve().parent.parent / "texts"

_IGNORED = (
    "/state/*",
    "!/state/session_history.jsonl",
    "/downloads/",
    "/.env",
    "/.env.*",
    "/.claude/skills",
    "/routine-reminder-spec.md",
    "/webhook-spec.md",
    ".*.tmp",
)


class Preparation(NamedTuple):
    """`is_new` if there was no data directory before; `problems` are sentences."""

    is_new: bool
    problems: tuple[str, ...] = ()


def prepare_data_directory(paths: DataPaths, disk: Disk | None = None) -> Preparation:
    """Every folder, link and file that the program needs; what is there already stays.

    Raises `WriteFailed` where it cannot be made.
    """
    try:
        _make_folders(paths)
        with FileLock(paths.lock_of(paths.root)).held():
            is_new = not paths.gitignore.exists()
            _make_links(paths)
            return Preparation(is_new, _make_files(paths, disk or OsDisk()))
    except OSError as refused:
        where = Path(refused.filename or paths.root)
        raise WriteFailed(where, f"could not be made: {refused.strerror}.") from refused


def _make_links(paths: DataPaths) -> None:
    _link(paths.claude_skills, Path("../skills"))
    for link in (paths.routine_spec_link, paths.webhook_spec_link):
        _link(link, TEXTS / link.name)


def _make_files(paths: DataPaths, disk: Disk) -> tuple[str, ...]:
    """What is wrong with one that is there already."""
    if not os.path.lexists(paths.identity):
        create_atomically(disk, paths.identity, (TEXTS / "IDENTITY.md").read_bytes(), SHARED)
    try:
        _list_ignored(paths.gitignore, disk)
    except Unfit as unfit:
        return (f"{paths.gitignore.name} is {unfit.reason}. Move it away; a new one is made then.",)
    return ()


def _make_folders(paths: DataPaths) -> None:
    # Other accounts of the machine have no business in there, whatever the umask says.
    for private in (paths.root, paths.state):
        private.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in (
        paths.routines,
        paths.reminders,
        paths.webhooks,
        paths.skills,
        paths.downloads,
        paths.claude_agents,
        paths.attachments,
        paths.locks,
    ):
        folder.mkdir(parents=True, exist_ok=True)


def _link(link: Path, target: Path) -> None:
    """A link to `target`, unless something else of that name is there; a dangling one is remade."""
    if link.is_symlink() and not link.exists():
        link.unlink()
    with suppress(FileExistsError):
        link.symlink_to(target)


def _list_ignored(gitignore: Path, disk: Disk) -> None:
    """Add what is missing at the end, so that a person's own `git add -A` is safe."""
    try:
        text = disk.read(gitignore, Largest.IGNORED).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        text = ""
    present = set(text.splitlines())
    missing = [line for line in _IGNORED if line not in present]
    if missing:
        start = text if not text or text.endswith("\n") else f"{text}\n"
        content = start + "".join(f"{line}\n" for line in missing)
        write_atomically(disk, gitignore, content.encode("utf-8", "surrogateescape"), SHARED)
