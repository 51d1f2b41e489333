"""The engine's processes, read from /proc."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path


def engines_at(home: Path) -> list[int]:
    """The processes of engines that work in this home."""
    return [pid for pid in _pids() if environment_of(pid).get("HOME") == str(home)]


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def environment_of(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)


def command_of(pid: int) -> list[str]:
    """Its command line, which every account can read."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []


async def eventually(condition: Callable[[], object], within: float) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.02)
