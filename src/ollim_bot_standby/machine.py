"""This machine, as the commands about several machines see it."""

from __future__ import annotations

import os
import platform
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ollim_bot.errors import Unreadable, WriteFailed
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit, read_file
from ollim_bot.store.files import PRIVATE, OsDisk
from ollim_bot.store.questions import DATABASE

_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine, and the installation on it. `say` is told each step before it is done."""

    paths: DataPaths
    environ: Mapping[str, str]
    now: Callable[[], datetime]
    say: Callable[[str], None] = lambda _: None

    @property
    def name(self) -> str:
        """What people call this machine; it identifies nothing."""
        return platform.node() or "this machine"

    @property
    def id(self) -> str:
        """The random id of the installation; empty if it has none yet."""
        return machine_id(self.paths) if self.paths.machine_id.exists() else ""

    @property
    def file(self) -> Path:
        return self.paths.state / DATABASE


def machine_id(paths: DataPaths) -> str:
    """The id, made on first use. It is no key, and of no use on another machine.

    Raises `StorageError`.
    """
    path = paths.machine_id
    while True:
        try:
            found = read_file(path, SizeLimit.SETTINGS).decode("ascii", "replace").strip()
        except FileNotFoundError:
            _make(paths)
            continue
        except OSError as refused:
            raise Unreadable(path, f"cannot be read: {refused.strerror}.") from refused
        if _ID.fullmatch(found):
            return found
        raise Unreadable(path, "is not the name of a machine. Remove it; the next start makes one.")


def _make(paths: DataPaths) -> None:
    """Write a new id, whole, unless another process was faster."""
    temporary = paths.state / f".{paths.machine_id.name}.{os.getpid()}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_hex(16)}\n")
        try:
            OsDisk().link(temporary, paths.machine_id)
        except FileExistsError:
            return
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as refused:
        raise WriteFailed(paths.machine_id, f"could not be made: {refused.strerror}.") from refused
