"""The bot as a service of this machine, behind one protocol for systemd and launchd."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol

from ollim_bot.paths import DataPaths
from ollim_bot.store.heartbeat import HeartbeatFile
from ollim_bot.upkeep.instance import running_pid
from ollim_bot.upkeep.launchd import Launchd
from ollim_bot.upkeep.supervision import (
    InstalledService,
    ServiceDefinition,
    ServiceSnapshot,
    SupervisorPrograms,
    SupervisorStatus,
)
from ollim_bot.upkeep.systemd import Systemd

_LOOK = 0.1
_BETWEEN_QUESTIONS = 0.3


class Supervisor(Protocol):
    """Starts the bot with the machine, and again when it dies.

    All methods but `files` and `installed` start programs, and raise `SupervisorFailed`.
    """

    name: str

    @property
    def file(self) -> Path:
        """Where the definition of the service is, or would be."""

    def files(self, definition: ServiceDefinition) -> dict[Path, str]:
        """What `install` writes."""

    def installed(self) -> InstalledService | None:
        """The service that is installed, read from its file."""

    def install(self, definition: ServiceDefinition) -> list[Path]:
        """Write and enable, without a start; gives where edited files are kept."""

    def uninstall(self) -> list[Path]:
        """Stop, and remove what `install` wrote; gives where edited files are kept."""

    def snapshot(self) -> ServiceSnapshot:
        """All that `install`, `start` and `outlive_logout` change, for `put_back`."""

    def put_back(self, earlier: ServiceSnapshot) -> None: ...

    def start(self) -> None: ...

    def start_sentinel(self) -> None: ...

    def stop(self) -> None:
        """Stop cleanly; returns when the bot has ended. It does not start again by itself."""

    def restart(self) -> None: ...

    def status(self) -> SupervisorStatus: ...

    def outlive_logout(self) -> str:
        """Let the service outlive the log-out; gives the command that is left to do, if any."""

    def logs(self, lines: int, *, follow: bool = False) -> None:
        """Show the log in this terminal."""

    def last_lines(self, lines: int) -> list[str]: ...


def find_supervisor(environ: Mapping[str, str]) -> Supervisor | None:
    """The supervisor of this machine, found by the search path of `environ`."""
    programs = SupervisorPrograms(environ)
    if programs.path("systemctl"):
        return Systemd(environ)
    return Launchd(environ) if programs.path("launchctl") else None


def service_of(paths: DataPaths, environ: Mapping[str, str]) -> Supervisor | None:
    """The supervisor that has a service installed for the bot of this data directory."""
    supervisor = find_supervisor(environ)
    installed = supervisor.installed() if supervisor else None
    if installed is None or installed.definition is None:
        return None
    is_same = os.path.realpath(installed.definition.data_dir) == os.path.realpath(paths.root)
    return supervisor if is_same else None


def wait_for_heartbeat(
    paths: DataPaths,
    since: datetime,
    seconds: float,
    has_given_up: Callable[[], bool] = lambda: False,
) -> bool:
    """Whether a running bot writes a heartbeat later than `since`, within so many seconds.

    Ends sooner if `has_given_up`, which may be slow to answer.
    """
    file, begun = HeartbeatFile(paths), time.monotonic()
    asked = begun
    while True:
        beat = file.read()
        if beat is not None and beat > since and running_pid(paths.bot_pid) is not None:
            return True
        now = time.monotonic()
        if now - begun >= seconds:
            return False
        if now - asked >= _BETWEEN_QUESTIONS:
            if has_given_up():
                return False
            asked = time.monotonic()
        time.sleep(_LOOK)
