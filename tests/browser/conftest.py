"""One browser for all tests of a process, and one context with a server for most of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from tests.browser.chromium import chromium
from tests.browser.scene import PageScene, checked_scene
from tests.browser.served import ServedContext, SharedContext
from tests.patience import patience

# Without windows a browser blocks notifications, with windows it asks.
_ASKS_FIRST = "Object.defineProperty(Notification, 'permission', {value: 'default'})"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "own_context: the test changes its browser context for good")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    # An upper limit: the tests go on as soon as the page shows what they expect.
    expect.set_options(timeout=1000 * patience())
    async with chromium() as started:
        yield started


@asynccontextmanager
async def served(browser: Browser, folder: Path) -> AsyncIterator[ServedContext]:
    context = await browser.new_context(timezone_id="UTC")
    context.set_default_timeout(1000 * patience())
    await context.add_init_script(_ASKS_FIRST)
    made = ServedContext(folder, context)
    await made.start()
    try:
        yield made
        await context.close()
    finally:
        await made.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SharedContext]:
    made = SharedContext(lambda: served(browser, tmp_path_factory.mktemp("page")))
    yield made
    await made.drop()


@pytest_asyncio.fixture(loop_scope="session")
async def scene(
    request: pytest.FixtureRequest, browser: Browser, shared: SharedContext, tmp_path: Path
) -> AsyncIterator[PageScene]:
    """Uses the shared browser context, unless the test is marked with `own_context`."""
    if request.node.get_closest_marker("own_context") is not None:
        async with served(browser, tmp_path) as own:
            with checked_scene(own) as made:
                yield made
        return
    failed = request.session.testsfailed
    with checked_scene(await shared.get()) as made:
        yield made
    if request.session.testsfailed > failed:
        await shared.drop()
    else:
        await shared.clean()


@pytest_asyncio.fixture(loop_scope="session")
async def page(scene: PageScene) -> Page:
    return await scene.open()
