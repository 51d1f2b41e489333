"""Checks of the machine and the program."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ollim_bot.domain.moments import MONTHS, WEEKDAYS, duration_in_words
from ollim_bot.domain.provider import Provider
from ollim_bot.upkeep.doctor import Finding, failed, passed, warned

CLOCK = "clock"
_SET = "Set the clock of this machine right; until then nothing comes on time."
# Older than this program, whatever it shows.
_IMPOSSIBLE = datetime(2026, 1, 1, tzinfo=UTC)
_A_HAIR = timedelta(minutes=2)


def clock(now: datetime, zone: str, last_seen: datetime | None) -> Iterator[Finding]:
    """`now` is in the owner's zone; `last_seen` is when the bot last wrote down the time."""
    if now < _IMPOSSIBLE:
        yield failed(CLOCK, f"it shows {now:%Y-%m-%d}, which cannot be", _SET)
    elif last_seen is not None and last_seen > now + _A_HAIR:
        ahead = duration_in_words(last_seen.astimezone(UTC) - now.astimezone(UTC))
        yield warned(CLOCK, f"it shows {ahead} less than when the bot last looked", _SET)
    else:
        day = f"{WEEKDAYS[now.weekday()]} {now.day} {MONTHS[now.month - 1]} {now.year}"
        yield passed(CLOCK, f"{day} {now:%H:%M}, {zone}")


DISK = "disk space"
MEMORY = "memory"
_KB, _MB, _GB = 1000, 1000**2, 1000**3
_LITTLE, _TOO_LITTLE = 500 * _MB, 50 * _MB
_MUCH_MEMORY = _GB
_LONGEST_WAIT = 2.0


def disk_space(free: int) -> Iterator[Finding]:
    """`free` bytes, where the data is."""
    left = f"{_size(free)} left"
    if free < _TOO_LITTLE:
        yield failed(DISK, left, "Make room: soon nothing can be written any more.")
    elif free < _LITTLE:
        yield warned(DISK, left, "Make room before it runs out.")
    else:
        yield passed(DISK, left)


def memory(pid: int | None, used: int | None) -> Iterator[Finding]:
    """Of the running bot; `used` is None where it cannot be told."""
    if pid is None:
        yield passed(MEMORY, "the bot is not running")
    elif used is None:
        yield passed(MEMORY, f"the bot runs as process {pid}")
    elif used > _MUCH_MEMORY:
        step = "`/restart` lets the bot begin anew; nothing is lost."
        yield warned(MEMORY, f"the bot (process {pid}) uses {_size(used)}", step)
    else:
        yield passed(MEMORY, f"the bot (process {pid}) uses {_size(used)}")


def memory_of(pid: int) -> int | None:
    """How many bytes a process has in memory; None where that cannot be told."""
    try:
        kilobytes = re.search(r"VmRSS:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())
        return int(kilobytes[1]) * 1024 if kilobytes else None
    except OSError:
        return _told_by_ps(pid)


def _told_by_ps(pid: int) -> int | None:
    command = ("/bin/ps", "-o", "rss=", "-p", str(pid))
    try:
        ran = subprocess.run(command, capture_output=True, timeout=_LONGEST_WAIT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = ran.stdout.strip()
    return int(text) * 1024 if text.isdigit() else None


def _size(count: int) -> str:
    for unit, name in ((_GB, "GB"), (_MB, "MB")):
        if count >= unit:
            return (
                f"{count / unit:.3g} {name}" if count < 1000 * unit else f"{count // unit} {name}"
            )
    return f"{count // _KB} kB"


PROGRAM = "Claude program"
MODEL = "model"
_INSTALL = "Install ollim-bot again."
_OFFLINE = "offline model, which is built in; `ollim-bot auth login` or an API key replaces it"
_PROGRAM_SECONDS = 15.0

Version = Callable[[Path], str]


def claude_program(cli: Path | None, version: Version) -> Iterator[Finding]:
    if cli is None:
        yield failed(PROGRAM, "it is missing", _INSTALL)
        return
    try:
        yield passed(PROGRAM, version(cli))
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or "it gave no answer"
        yield failed(PROGRAM, f"{cli} cannot be run: {reason}", _INSTALL)


def version_in(environment: Mapping[str, str]) -> Version:
    def version(cli: Path) -> str:
        """Raises `OSError` or `SubprocessError` if it does not say."""
        ran = subprocess.run(
            (cli, "--version"),
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROGRAM_SECONDS,
            check=True,
        )
        return ran.stdout.decode("utf-8", "replace").strip()

    return version


def model(provider: Provider) -> Iterator[Finding]:
    if provider.problem:
        yield failed(MODEL, provider.name, provider.problem)
    else:
        yield passed(MODEL, _OFFLINE if provider.is_offline else provider.name)


SETTINGS = "environment"
_MEND = "Set it right there and start the bot again."


def environment(problems: Sequence[str], warnings: Sequence[str]) -> Iterator[Finding]:
    """`problems` keep the bot from starting. All are sentences with the place and what is right."""
    for problem in problems:
        yield failed(SETTINGS, problem, _MEND)
    for warning in warnings:
        yield warned(SETTINGS, warning, _MEND)
    if not problems and not warnings:
        yield passed(SETTINGS, "all settings are right")
