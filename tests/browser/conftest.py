"""One browser for all tests of a process; a context of its own, with a server, for each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from tests.browser.chromium import chromium
from tests.browser.stage import Stage, staged

# A bound, not a wait: everything is there as soon as the page shows it.
PATIENCE_MS = 10_000

# Without windows a browser blocks notifications, with windows it asks.
_ASKS_FIRST = "Object.defineProperty(Notification, 'permission', {value: 'default'})"

expect.set_options(timeout=PATIENCE_MS)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def stage(browser: Browser, tmp_path: Path) -> AsyncIterator[Stage]:
    context = await browser.new_context(timezone_id="UTC")
    context.set_default_timeout(PATIENCE_MS)
    await context.add_init_script(_ASKS_FIRST)
    async with staged(tmp_path, context) as made:
        yield made
        await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(stage: Stage) -> Page:
    return await stage.open()
