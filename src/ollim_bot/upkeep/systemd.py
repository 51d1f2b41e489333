"""systemd runs the bot as a unit of the user, and the sentinel by a timer."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ollim_bot.errors import SupervisorFailed
from ollim_bot.upkeep.supervision import (
    STOP_SECONDS,
    Contents,
    ServiceDefinition,
    ServiceFiles,
    SupervisorStatus,
    marked,
)

UNIT = "ollim-bot.service"
SENTINEL = "ollim-bot-sentinel.service"
TIMER = "ollim-bot-sentinel.timer"
_ENABLED = (UNIT, TIMER)
_PLAIN_WORD = re.compile(r"[\w/.:=@+,%-]+", re.ASCII)
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')

# systemd takes no program with such a name, wherever quotes stand; a shell does.
_REFUSED = re.compile(r"""["'\\\x00-\x1f\x7f]""")
_SHELL = ("/bin/sh", "-c", 'exec "$0" "$@"')

_LOG_IN = (
    "systemd runs services only for users who are logged in: log in as this user, not by su or "
    "sudo, and do it again."
)

_SERVICE = """\
[Unit]
Description=ollim-bot, your assistant
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
{place}
Restart=on-failure
RestartPreventExitStatus=2
SuccessExitStatus=75
RestartForceExitStatus=75
RestartSec=5
KillMode=mixed
TimeoutStopSec={stop}
SyslogIdentifier=ollim-bot

[Install]
WantedBy=default.target
"""
_SENTINEL = """\
[Unit]
Description=Deliver what must not be missed if ollim-bot is dead

[Service]
Type=oneshot
ExecStart={command}
{place}
TimeoutStartSec=420
SyslogIdentifier=ollim-bot-sentinel
"""
_TIMER = """\
[Unit]
Description=Look every 5 minutes whether ollim-bot lives

[Timer]
OnCalendar=*:0/5
AccuracySec=10s

[Install]
WantedBy=timers.target
"""


def quoted(word: str) -> str:
    """The word as systemd reads it back in a command line or in `Environment=`."""
    doubled = word.replace("%", "%%")
    if _PLAIN_WORD.fullmatch(word):
        return doubled
    escaped = doubled.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def words_of(value: str) -> list[str]:
    """The words that `quoted` made."""
    found = ((match[1], match[2]) for match in _WORD.finditer(value))
    return [
        (bare if inner is None else re.sub(r"\\(.)", r"\1", inner)).replace("%%", "%")
        for inner, bare in found
    ]


def command_line(words: Sequence[str]) -> str:
    if _REFUSED.search(words[0]):
        words = (*_SHELL, *words)
    # The colon keeps systemd from replacing variables in the words.
    prefix = ":" if any("$" in word for word in words) else ""
    return " ".join(map(quoted, (prefix + words[0], *words[1:])))


def unit_files(definition: ServiceDefinition) -> dict[str, str]:
    """The text of each file by its name."""
    # systemd takes the folder whole, so that quotes would be a part of it.
    place = [f"WorkingDirectory={str(definition.data_dir).replace('%', '%%')}"]
    for name, value in sorted(definition.environment.items()):
        place.append(f"Environment={quoted(f'{name}={value}')}")
    given = {"place": "\n".join(place), "stop": STOP_SECONDS}
    command = definition.command
    texts = {
        UNIT: _SERVICE.format(command=command_line(command), **given),
        SENTINEL: _SENTINEL.format(command=command_line((*command, "sentinel")), **given),
        TIMER: _TIMER,
    }
    return {name: marked(text, "# {}") for name, text in texts.items()}


def definition_in(unit: str) -> ServiceDefinition | None:
    """What a unit runs; None if it is not such a unit."""
    commands: list[tuple[str, ...]] = []
    folders: list[str] = []
    environment: dict[str, str] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", unit, re.MULTILINE):
        if key == "ExecStart" and value.strip():
            first, *rest = words_of(value)
            words = (first.removeprefix(":"), *rest)
            commands.append(words[len(_SHELL) :] if words[: len(_SHELL)] == _SHELL else words)
        elif key == "WorkingDirectory":
            folders.append(value.replace("%%", "%"))
        elif key == "Environment":
            pairs = (word.partition("=") for word in words_of(value))
            environment |= {name: content for name, _, content in pairs}
    if len(commands) != 1 or len(folders) != 1:
        return None
    return ServiceDefinition(commands[0], Path(folders[0]), environment)


class Systemd(ServiceFiles):
    name = "systemd"
    names = (UNIT, SENTINEL, TIMER)
    stem = "ollim-bot"

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ, definition_in, ".config", "systemd", "user")

    def files(self, definition: ServiceDefinition) -> dict[Path, str]:
        return {self.folder / name: text for name, text in unit_files(definition).items()}

    def install(self, definition: ServiceDefinition) -> list[Path]:
        kept = self._write(self.files(definition))
        self._systemctl("daemon-reload")
        if self._values(UNIT, "LoadState") != {"LoadState": "loaded"}:
            raise SupervisorFailed(
                f"systemd does not read {self.file}. `systemctl --user show -p UnitPath` shows "
                "where it looks."
            )
        self._systemctl("enable", *_ENABLED)
        return kept

    def uninstall(self) -> list[Path]:
        present = self._ours()
        if not present:
            return []
        self._systemctl("disable", "--now", *(each for each in _ENABLED if each in present))
        kept = self._remove(present)
        self._systemctl("daemon-reload")
        self._tell("reset-failed", UNIT, SENTINEL)
        return kept

    def put_back(self, earlier: Contents) -> None:
        """Stop, and make the files as they were, as far as systemd obeys."""
        self._tell("stop", *_ENABLED)
        self._put_back_files(earlier)
        self._tell("daemon-reload")
        self._tell("reset-failed", UNIT, SENTINEL)

    def start(self) -> None:
        # A unit that has failed too often would not be started otherwise.
        self._tell("reset-failed", UNIT)
        self._systemctl("start", UNIT)

    def start_sentinel(self) -> None:
        self._systemctl("start", TIMER)

    def stop(self) -> None:
        self._systemctl("stop", UNIT)

    def restart(self) -> None:
        self._systemctl("restart", UNIT)

    def status(self) -> SupervisorStatus:
        wanted = ("ActiveState", "SubState", "MainPID", "UnitFileState", "NRestarts")
        values = self._values(UNIT, *wanted)
        active, pid = values.get("ActiveState", "unknown"), values.get("MainPID", "0")
        restarts = values.get("NRestarts", "0")
        return SupervisorStatus(
            words=f"{active} ({values.get('SubState', 'unknown')})",
            is_running=active == "active",
            is_enabled=values.get("UnitFileState") == "enabled",
            pid=int(pid) if pid.isdigit() and pid != "0" else None,
            has_given_up=active == "failed",
            restarts=int(restarts) if restarts.isdigit() else 0,
            lingers=self._lingers(),
        )

    def timer(self) -> Mapping[str, str]:
        """What systemd says of the sentinel's timer."""
        return self._values(TIMER, "ActiveState", "LastTriggerUSec")

    def outlive_logout(self) -> str:
        if self._lingers():
            return ""
        try:
            self._programs.done("loginctl", "--no-ask-password", "enable-linger", _user())
        except SupervisorFailed:
            return f"sudo loginctl enable-linger {_user()}"
        return ""

    def _lingers(self) -> bool | None:
        try:
            ran = self._programs.run("loginctl", "show-user", _user(), "--property=Linger")
        except SupervisorFailed:
            return None
        # loginctl knows only users who are logged in or linger.
        return ran.stdout.strip() == "Linger=yes" if ran.returncode == 0 else False

    def log_command(self, lines: int, *, follow: bool = False) -> Sequence[str]:
        shape = ("--output=cat", "--no-pager", "--quiet", *(["--follow"] if follow else []))
        return ("journalctl", "--user", f"--unit={UNIT}", *shape, f"--lines={lines}")

    def _systemctl(self, *words: str) -> str:
        try:
            return self._programs.done("systemctl", "--user", *words)
        except SupervisorFailed as failed:
            if re.search(r"(?i)\bbus\b|XDG_RUNTIME_DIR", str(failed)):
                raise SupervisorFailed(f"{failed} {_LOG_IN}") from None
            raise

    def _tell(self, *words: str) -> bool:
        """Whether systemd did it."""
        return self._programs.run("systemctl", "--user", *words).returncode == 0

    def _values(self, unit: str, *names: str) -> Mapping[str, str]:
        told = self._systemctl("show", unit, f"--property={','.join(names)}", "--timestamp=unix")
        return dict(line.split("=", 1) for line in told.splitlines() if "=" in line)


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
