"""What a person types to a local server in a terminal, and what it writes there."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import suppress


def write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def typed_lines() -> asyncio.Queue[str]:
    """The typed lines; an empty one at the end.

    The reading thread is a daemon, so that it does not keep the program alive.
    """
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[str]()

    def read() -> None:
        with suppress(RuntimeError):  # the loop is closed
            while line := sys.stdin.readline():
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, "")

    threading.Thread(target=read, daemon=True).start()
    return lines
