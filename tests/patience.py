"""How long tests wait for something before they fail: one number, in proportion to this machine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

_VARIABLE = "OLLIM_BOT_TEST_PATIENCE"
# In seconds: the least and the most, and how long Python takes to start on an idle machine.
_LEAST, _MOST, _IDLE_START = 120.0, 600.0, 0.02
_BETWEEN_LOOKS = 0.1


def patience() -> float:
    """The seconds after which something that a test waits for will not come any more.

    Programs that a test starts have the same number.
    """
    return float(os.environ.get(_VARIABLE, _LEAST))


def measure_patience() -> None:
    """Set the number by how long Python takes to start now."""
    starts = []
    for _ in range(3):
        began = time.monotonic()
        subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)
        starts.append(time.monotonic() - began)
    measured = _LEAST * max(starts) / _IDLE_START
    os.environ[_VARIABLE] = str(round(min(max(measured, _LEAST), _MOST)))


def wait_for_file(path: Path) -> None:
    deadline = time.monotonic() + _MOST
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(_BETWEEN_LOOKS)


async def eventually(condition: Callable[[], object]) -> None:
    """Wait for a condition that has no event, such as the removal of a file."""
    async with asyncio.timeout(patience()):
        while not condition():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.002)
