"""The engine's processes, as the kernel knows them."""

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
    """Everything on its command line, as everybody can read it."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []


async def eventually(condition: Callable[[], object], within: float) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - the kernel rings no bell
            await asyncio.sleep(0.02)
