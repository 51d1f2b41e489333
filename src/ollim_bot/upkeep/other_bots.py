"""Other data directories whose bot runs from the same installation.

An update exchanges the program of all of them, but backs up and starts on only its own data.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ollim_bot.domain.text import PROGRAM
from ollim_bot.paths import DataPaths
from ollim_bot.upkeep.instance import running_pid
from ollim_bot.upkeep.service import find_supervisor

_MODULE = "ollim_bot"
_PS = ("/bin/ps", "-axww", "-o", "pid=,command=")
_PS_LIMIT = 10.0


class _RunningBot(NamedTuple):
    """`root` is its data directory, where the system tells."""

    pid: int
    root: Path | None


def why_not_alone(environment: Path, paths: DataPaths, environ: Mapping[str, str]) -> str:
    """Why an update would reach the bot of other data too, and what to do; empty if it does not."""
    own, own_bot = _real(paths.root), running_pid(paths.bot_pid)
    for bot in _running(environment):
        if bot.pid not in (own_bot, os.getpid()) and bot.root != own:
            data = f", with its data in {bot.root}" if bot.root else ""
            return (
                f"Another bot runs from this installation{data} (process {bot.pid}), and would "
                "lose its program. Stop it, update, and start it again."
            )
    supervisor = find_supervisor(environ)
    service = supervisor.installed() if supervisor else None
    if service is not None and service.definition is not None:
        command, root = service.definition.command, _real(service.definition.data_dir)
        if root != own and _is_of(environment, command):
            return (
                f"The service of this installation runs the bot with the data in {root}. Update "
                f"that one: `OLLIM_DATA_DIR={root} ollim-bot update`."
            )
    return ""


def _running(environment: Path, proc: Path = Path("/proc")) -> Iterator[_RunningBot]:
    if not (proc / "self" / "cmdline").exists():
        yield from _listed_by_ps(environment)
        return
    for process in proc.glob("[0-9]*"):
        try:
            words = os.fsdecode((process / "cmdline").read_bytes()).rstrip("\0").split("\0")
        except OSError:  # it has ended
            continue
        if _is_bot(words) and _is_of(environment, words):
            yield _RunningBot(int(process.name), _data_of(process))


def _listed_by_ps(environment: Path) -> Iterator[_RunningBot]:
    try:
        ran = subprocess.run(_PS, env={}, capture_output=True, timeout=_PS_LIMIT, check=True)
    except (OSError, subprocess.SubprocessError):
        return
    for line in os.fsdecode(ran.stdout).splitlines():
        pid, _, command = line.strip().partition(" ")
        words = command.split()
        if pid.isdigit() and words and _is_bot(words) and f"{environment}/" in command:
            yield _RunningBot(int(pid), None)


def _is_bot(words: Sequence[str]) -> bool:
    """Whether the command runs the bot: it ends with the program, and no verb follows."""
    return words[-1] == _MODULE or os.path.basename(words[-1]) == PROGRAM


def _is_of(environment: Path, words: Sequence[str]) -> bool:
    programs = (Path(word) for word in words if word.startswith("/"))
    return any(_real(each.parent.parent) == environment for each in programs)


def _data_of(process: Path) -> Path | None:
    """The data directory whose lock the process holds."""
    try:
        held = [each.readlink() for each in (process / "fd").iterdir()]
    except OSError:  # it has ended, or is another account's
        return None
    locks = (each for each in held if each == DataPaths(each.parent.parent).bot_pid)
    return next((each.parent.parent for each in locks), None)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
