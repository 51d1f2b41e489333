"""This machine, as the commands about several machines see it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ollim_bot.paths import DataPaths
from ollim_bot.store.opening import DATABASE
from ollim_bot_standby.machine_id import machine_id


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
