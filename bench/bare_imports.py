"""`python -m bench.bare_imports`: a process that has loaded the bot's libraries, and waits."""

from __future__ import annotations

import time
from pathlib import Path

import aiohttp
import claude_agent_sdk
import discord

READY = "ready"

if __name__ == "__main__":
    names = [library.__name__ for library in (aiohttp, claude_agent_sdk, discord)]
    Path(READY).write_text(" ".join(names))
    while True:
        time.sleep(60)
