"""launchd runs the bot as an agent of the user on a Mac, and the sentinel every five minutes."""

from __future__ import annotations

import os
import plistlib
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from xml.parsers.expat import ExpatError

from ollim_bot.errors import SupervisorFailed
from ollim_bot.upkeep.supervision import (
    STOP_SECONDS,
    Contents,
    ServiceDefinition,
    ServiceFiles,
    SupervisorStatus,
    marked,
)

LABEL = "local.ollim-bot"
SENTINEL = "local.ollim-bot.sentinel"
_LABELS = (LABEL, SENTINEL)
_SENTINEL_SECONDS = 300
# launchd has no pauses that grow, and starts a program again after any failure.
_PAUSE = 15
_LOOK = 0.1


def agent_files(definition: ServiceDefinition, log: Path) -> dict[str, str]:
    """The text of each property list by its label; the bot writes its log to `log`."""
    place = {
        "WorkingDirectory": str(definition.data_dir),
        "EnvironmentVariables": dict(definition.environment),
        "StandardOutPath": str(log),
        "StandardErrorPath": str(log),
    }
    bot = {
        "Label": LABEL,
        "ProgramArguments": list(definition.command),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": _PAUSE,
        "ExitTimeOut": STOP_SECONDS,
        **place,
    }
    sentinel = {
        "Label": SENTINEL,
        "ProgramArguments": [*definition.command, "sentinel"],
        "StartInterval": _SENTINEL_SECONDS,
        **place,
    }
    return {
        label: marked(plistlib.dumps(agent).decode(), "<!-- {} -->")
        for label, agent in ((LABEL, bot), (SENTINEL, sentinel))
    }


def definition_in(text: str) -> ServiceDefinition | None:
    """What an agent runs; None if the text is not such an agent."""
    try:
        agent = plistlib.loads(text.encode())
        command = tuple(map(str, agent["ProgramArguments"]))
        environment = {
            str(name): str(value) for name, value in agent["EnvironmentVariables"].items()
        }
        return ServiceDefinition(command, Path(agent["WorkingDirectory"]), environment)
    except (ExpatError, ValueError, KeyError, TypeError, AttributeError):
        return None


class Launchd(ServiceFiles):
    name = "launchd"
    names = tuple(f"{label}.plist" for label in _LABELS)
    stem = LABEL

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ, definition_in, "Library", "LaunchAgents")
        self._log = self._home / "Library" / "Logs" / "ollim-bot.log"
        self._domain = f"gui/{os.getuid()}"

    def files(self, definition: ServiceDefinition) -> dict[Path, str]:
        texts = agent_files(definition, self._log)
        return {self.folder / f"{label}.plist": text for label, text in texts.items()}

    def install(self, definition: ServiceDefinition) -> list[Path]:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        for label in _LABELS:
            # launchd goes by the file as it was when it was loaded.
            self._unload(label)
        kept = self._write(self.files(definition))
        for label in _LABELS:
            self._programs.run("launchctl", "enable", self._target(label))
        return kept

    def uninstall(self) -> list[Path]:
        present = self._ours()
        for name in present:
            self._unload(name.removesuffix(".plist"))
        return self._remove(present)

    def put_back(self, earlier: Contents) -> None:
        """Stop, and make the files as they were."""
        for label in _LABELS:
            self._unload(label)
        self._put_back_files(earlier)

    def start(self) -> None:
        if self._is_loaded(LABEL):
            self._launchctl("kickstart", self._target(LABEL))
        else:
            self._load(LABEL)

    def start_sentinel(self) -> None:
        self._unload(SENTINEL)
        self._load(SENTINEL)

    def stop(self) -> None:
        """It starts again at the next login."""
        # A signal alone would not do: a bot that has just begun dies of it, and launchd takes that
        # for a failure and starts it again.
        self._unload(LABEL)
        if self._is_loaded(LABEL):
            raise SupervisorFailed(f"The bot has not ended within {STOP_SECONDS} s.")

    def restart(self) -> None:
        self.stop()
        self.start()

    def status(self) -> SupervisorStatus:
        ran = self._programs.run("launchctl", "print", self._target(LABEL))
        if ran.returncode:
            is_installed = self.file.exists()
            return SupervisorStatus("not loaded", is_running=False, is_enabled=is_installed)
        values = dict(re.findall(r"^\s*(state|pid|runs) = (.+)$", ran.stdout, re.MULTILINE))
        pid, runs = values.get("pid", ""), values.get("runs", "")
        return SupervisorStatus(
            words=values.get("state", "loaded"),
            is_running=pid.isdigit(),
            is_enabled=True,
            pid=int(pid) if pid.isdigit() else None,
            restarts=max(0, int(runs) - 1) if runs.isdigit() else 0,
        )

    def timer(self) -> Mapping[str, str]:
        """launchd says nothing of it."""
        return {}

    def outlive_logout(self) -> str:
        """An agent ends with the login of its user; launchd has no way around that."""
        return ""

    def log_command(self, lines: int, *, follow: bool = False) -> Sequence[str]:
        return ("tail", "-n", str(lines), *(["-F"] if follow else []), str(self._log))

    def _load(self, label: str) -> None:
        self._launchctl("bootstrap", self._domain, str(self.folder / f"{label}.plist"))

    def _unload(self, label: str) -> None:
        """Returns when the program has ended: launchd refuses to load it before that."""
        if not self._is_loaded(label):
            return
        with suppress(SupervisorFailed):
            self._launchctl("bootout", self._target(label))
        deadline = time.monotonic() + STOP_SECONDS
        while self._is_loaded(label) and time.monotonic() < deadline:
            time.sleep(_LOOK)

    def _is_loaded(self, label: str) -> bool:
        return self._programs.run("launchctl", "print", self._target(label)).returncode == 0

    def _launchctl(self, *words: str) -> str:
        return self._programs.done("launchctl", *words)

    def _target(self, label: str) -> str:
        return f"{self._domain}/{label}"
