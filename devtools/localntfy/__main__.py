"""Runs the local ntfy and a phone in a terminal: `python -m devtools.localntfy`."""

from __future__ import annotations

import argparse
import asyncio
import errno
import sys
from contextlib import suppress

from devtools.localntfy.phone import Phone
from devtools.localntfy.server import LocalNtfy
from devtools.localntfy.terminal import HELP, Terminal
from devtools.typed_lines import typed_lines, write_line

_PORT = 9002
_ASK = "The topic of the phone, as `ollim-bot push setup` names it:"


async def _hold(port: int, topic: str, *, is_iphone: bool, is_old: bool) -> None:
    async with LocalNtfy(port=port, version=(2, 15) if is_old else (2, 16)) as ntfy:
        write_line("Start the bot, and call its commands, with this in the environment:")
        write_line(f"NTFY_URL={ntfy.url}")
        lines = typed_lines()
        if not topic:
            write_line(_ASK)
            topic = (await lines.get()).strip()
        if not topic:
            return
        async with Phone(ntfy.url, topic, is_iphone=is_iphone) as phone:
            await phone.connected()
            write_line(f"The phone follows {topic}.")
            write_line(HELP)
            await _use(Terminal(phone, write_line), lines)


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
