"""What the machine has left, and what the bot takes of it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ollim_bot.upkeep.findings import Finding, failed, passed, warned

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
