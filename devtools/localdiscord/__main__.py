"""Runs the local Discord in a terminal: `python -m devtools.localdiscord`."""

from __future__ import annotations

import argparse
import asyncio
import errno
import sys

from devtools.localdiscord.server import LocalDiscord
from devtools.localdiscord.terminal import HELP, Terminal
from devtools.typed_lines import typed_lines, write_line

_PORT = 9000


async def _tell_who_is_there(discord: LocalDiscord) -> None:
    while True:
        await discord.state.until(lambda: discord.gateway.listeners, None)
        write_line("* the bot is there")
        await discord.state.until(lambda: not discord.gateway.listeners, None)
        write_line("* the bot is away")


async def _talk(port: int, token: str | None) -> None:
    async with LocalDiscord(port=port, token=token) as discord:
        write_line("Start the bot with these two in its environment:")
        write_line(f"DISCORD_API_URL={discord.api_url}")
        write_line(f"DISCORD_TOKEN={discord.token}")
        write_line(HELP)
        terminal = Terminal(discord, write_line)
        tasks = [
            asyncio.create_task(each) for each in (_tell_who_is_there(discord), terminal.watch())
        ]
        lines = typed_lines()
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
