"""Runs the local Google in a terminal: `python -m devtools.localgoogle`."""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import sys
from contextlib import suppress

from devtools.localgoogle.server import LocalGoogle
from devtools.typed_lines import write_line

_PORT = 9001


async def _serve(port: int) -> None:
    async with LocalGoogle(port=port) as google:
        write_line("Start the bot, and call its commands, with these in the environment:")
        for name, value in google.environment.items():
            write_line(f"{name}={value}")
        write_line("This belongs into state/credentials.json of its data directory:")
        write_line(json.dumps(google.credentials))
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m devtools.localgoogle")
    parser.add_argument("--port", type=int, default=_PORT, help=f"0 is any; {_PORT} if not given")
    given = parser.parse_args()
    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(_serve(given.port))
    except OSError as wrong:
        if wrong.errno != errno.EADDRINUSE:
            raise
        sys.exit(f"Port {given.port} is taken. Give another one with --port.")


if __name__ == "__main__":
    main()
