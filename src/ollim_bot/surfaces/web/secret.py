"""The secret of the page, in a file of its own, and the address that carries it."""

from __future__ import annotations

import re
import secrets

from ollim_bot.data_paths import DataPaths
from ollim_bot.errors import Unreadable
from ollim_bot.plain_files import Largest
from ollim_bot.ports import Disk
from ollim_bot.settings import Secret
from ollim_bot.storage.files import PRIVATE, OsDisk, create_atomically, remove_durably
from ollim_bot.storage.locks import FileLock

_BYTES = 32
_SHAPE = re.compile(rb"[\w-]{32,128}\n?", re.ASCII)


def web_secret(paths: DataPaths, disk: Disk | None = None) -> Secret:
    """The secret that is kept, or a new one where there is none that could be used.

    Needs the data directory to be there; raises `WriteFailed` if a new one cannot be kept.
    """
    disk = disk or OsDisk()
    with FileLock(paths.lock_of(paths.web_token)).held():
        return _kept(paths, disk) or _new(paths, disk)


def address(port: int, secret: Secret) -> str:
    """For a terminal only: whoever has it is let in."""
    return f"http://127.0.0.1:{port}/?token={secret.reveal()}"


def _kept(paths: DataPaths, disk: Disk) -> Secret | None:
    try:
        raw = disk.read(paths.web_token, Largest.NOTE)
    except OSError:
        return None
    return Secret(raw.decode("ascii").strip()) if _SHAPE.fullmatch(raw) else None


def _new(paths: DataPaths, disk: Disk) -> Secret:
    value = secrets.token_urlsafe(_BYTES)
    if paths.web_token.is_dir() and not paths.web_token.is_symlink():
        raise Unreadable(paths.web_token, "is a folder. Move it away; a new file is made then.")
    # Not written over: a file that others could read would keep its mode.
    remove_durably(disk, paths.web_token)
    create_atomically(disk, paths.web_token, f"{value}\n".encode(), PRIVATE)
    return Secret(value)
