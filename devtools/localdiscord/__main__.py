"""Runs the local Discord in a terminal: `python -m devtools.localdiscord`."""

from __future__ import annotations

import argparse
import asyncio
import errno
import sys
import threading
from contextlib import suppress

from devtools.localdiscord.server import LocalDiscord
from devtools.localdiscord.terminal import HELP, Terminal

_PORT = 9000


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


async def _tell_who_is_there(discord: LocalDiscord) -> None:
    while True:
        await discord.state.until(lambda: discord.gateway.listeners, None)
        _write("* the bot is there")
        await discord.state.until(lambda: not discord.gateway.listeners, None)
        _write("* the bot is away")


async def _talk(port: int, token: str | None) -> None:
    async with LocalDiscord(port=port, token=token) as discord:
        _write("Start the bot with these two in its environment:")
        _write(f"DISCORD_API_URL={discord.api_url}")
        _write(f"DISCORD_TOKEN={discord.token}")
        _write(HELP)
        terminal = Terminal(discord, _write)
        tasks = [
            asyncio.create_task(each) for each in (_tell_who_is_there(discord), terminal.watch())
        ]
        lines = _lines()
        try:
            while (line := await lines.get()) and line.strip() != "!quit":
                terminal.run_line(line)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m devtools.localdiscord")
    parser.add_argument("--port", type=int, default=_PORT, help=f"0 is any; {_PORT} if not given")
    parser.add_argument("--token", help="what the bot logs in with; made up if not given")
    given = parser.parse_args()
    try:
        asyncio.run(_talk(given.port, given.token))
    except KeyboardInterrupt:
        pass
    except OSError as wrong:
        if wrong.errno != errno.EADDRINUSE:
            raise
        sys.exit(f"Port {given.port} is taken. Give another one with --port.")


if __name__ == "__main__":
    main()
