"""The browser that the page is tested in."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, async_playwright

SETUP = Path(__file__).parent / "setup"

# Without these flags the browser contacts the servers of its maker.
_QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)


def browser_path() -> str:
    """The browser that `make test` found or installed. Without one the tests fail."""
    ran = subprocess.run([SETUP], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    # Chromium refuses its sandbox to root, and containers run as root.
    flags = [*_QUIET, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=browser_path(), args=flags)
        try:
            yield browser
        finally:
            await browser.close()
