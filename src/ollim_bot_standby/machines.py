"""What the machines of one bot know of each other: who leads, and what their database is like."""

from __future__ import annotations

import os
import platform
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from ollim_bot.kernel.base.errors import Unreadable, WriteFailed
from ollim_bot.kernel.base.moments import duration_in_words
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.store.files import PRIVATE, OsDisk
from ollim_bot.kernel.store.questions import DATABASE

# The tables by which a database is known to be one of ours.
OUR_TABLES = frozenset(("lease", "meta", "records", "messages"))


@dataclass(frozen=True, slots=True)
class Leader:
    """The machine that leads, or led last; `seconds_left` is 0 once another one may take over.

    It took over `since` seconds ago, and has last renewed the lease `renewed` seconds ago. Two
    machines may have one name; `machine` is the random id of its installation.
    """

    name: str
    epoch: int
    seconds_left: float
    schema: int
    version: str = field(default="", compare=False)
    since: float = field(default=0.0, compare=False)
    renewed: float = field(default=0.0, compare=False)
    machine: str = field(default="", compare=False)

    def is_on(self, machine: str) -> bool:
        """Whether this is the machine with that id."""
        return bool(machine) and self.machine == machine

    @property
    def is_leading(self) -> bool:
        return self.seconds_left > 0


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A database on a server, as it is found. `schema` is 0 without our tables.

    `closed` is the move it waits for. `move` names the move that brought the rows and its epoch,
    `key_names` are keys used there.
    """

    number: int
    version: str
    encoding: str
    is_replica: bool
    user: str
    can_create: bool
    tables: frozenset[str]
    leader: Leader | None = None
    schema: int = 0
    closed: str = ""
    move: str = ""
    key_names: tuple[str, ...] = ()

    @property
    def has_tables(self) -> bool:
        return self.tables >= OUR_TABLES

    @property
    def is_ours(self) -> bool:
        return self.has_tables and self.schema > 0

    @property
    def leading(self) -> Leader | None:
        """The machine that leads now."""
        return self.leader if self.leader is not None and self.leader.is_leading else None

    @property
    def is_open(self) -> bool:
        """Whether a machine can lead there."""
        return self.is_ours and not self.closed and not self.is_replica

    @property
    def is_empty(self) -> bool:
        return self.tables <= {"lease"}

    @property
    def epoch(self) -> int:
        return 0 if self.leader is None else self.leader.epoch


@dataclass(frozen=True, slots=True)
class HandOver:
    """Who led before, and who leads after so many seconds; `after` is None if no machine does."""

    before: Leader
    after: Leader | None
    seconds: float

    @property
    def is_done(self) -> bool:
        return self.after is not None and self.after.epoch > self.before.epoch


def in_words(seconds: float) -> str:
    return duration_in_words(timedelta(seconds=max(round(seconds), 1)))


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


NOT_NOW = (
    "cannot be changed now: it is being moved, or another process takes the lead. Nothing was "
    "changed. Try again, or see `ollim-bot standby status`."
)


class ServerGone(WriteFailed):
    """The database server cannot be reached."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, f"cannot be reached: {reason}. Nothing was changed.")
        self.why = f"it cannot be reached ({reason})"


class OnStandby(WriteFailed):
    """Another machine leads, and this one only reads."""

    def __init__(self, path: Path, leader: str = "another machine") -> None:
        super().__init__(
            path,
            f"is led by {leader}, and this machine only reads. Nothing was changed. Do it there.",
        )
