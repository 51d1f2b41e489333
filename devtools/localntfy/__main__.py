"""Runs the local ntfy and a phone in a terminal: `python -m devtools.localntfy`."""

from __future__ import annotations

import argparse
import asyncio
import errno
import sys
import threading
from contextlib import suppress

from devtools.localntfy.phone import Phone
from devtools.localntfy.server import LocalNtfy
from devtools.localntfy.terminal import HELP, Terminal

_PORT = 9002
_ASK = "The topic of the phone, as `ollim-bot push setup` names it:"


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _lines() -> asyncio.Queue[str]:
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


async def _hold(port: int, topic: str, *, is_iphone: bool, is_old: bool) -> None:
    async with LocalNtfy(port=port, version=(2, 15) if is_old else (2, 16)) as ntfy:
        _write("Start the bot, and call its commands, with this in the environment:")
        _write(f"NTFY_URL={ntfy.url}")
        lines = _lines()
        if not topic:
            _write(_ASK)
            topic = (await lines.get()).strip()
        if not topic:
            return
        async with Phone(ntfy.url, topic, is_iphone=is_iphone) as phone:
            await phone.connected()
            _write(f"The phone follows {topic}.")
            _write(HELP)
            await _use(Terminal(phone, _write), lines)


async def _use(terminal: Terminal, lines: asyncio.Queue[str]) -> None:
    watching = asyncio.create_task(terminal.watch())
    try:
        while (line := await lines.get()) and line.strip() != "quit":
            await terminal.run_line(line)
    finally:
        watching.cancel()
        await asyncio.wait([watching])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m devtools.localntfy")
    parser.add_argument("--port", type=int, default=_PORT, help=f"0 is any; {_PORT} if not given")
    parser.add_argument("--topic", default="", help="what the phone follows; asked if not given")
    parser.add_argument("--iphone", action="store_true", help="it replaces and clears nothing")
    parser.add_argument("--old", action="store_true", help="a server of 2.15, without sequence ids")
    given = parser.parse_args()
    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(_hold(given.port, given.topic, is_iphone=given.iphone, is_old=given.old))
    except OSError as wrong:
        if wrong.errno != errno.EADDRINUSE:
            raise
        sys.exit(f"Port {given.port} is taken. Give another one with --port.")


if __name__ == "__main__":
    main()
