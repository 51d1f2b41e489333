"""A browser context with its server, which tests may use one after another."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from datetime import UTC
from itertools import count
from pathlib import Path
from typing import cast

from devtools.doubles.reception import FakeReception
from playwright.async_api import BrowserContext, Page, ViewportSize
from tests.surfaces.web.scene import Scene, make_scene, running

from ollim_bot.kernel.base.clock import SystemClock
from ollim_bot.surfaces.web.access import HEALTH

_USUAL_SIZE: ViewportSize = {"width": 1280, "height": 720}

# Keeps the database with the key by which the server knows the browser.
_FORGET = """async () => {
    localStorage.clear();
    sessionStorage.clear();
    const files = indexedDB.deleteDatabase("ollim");
    await new Promise((resolve) => { files.onsuccess = resolve; });
}"""


class ServedContext:
    """A browser context and the server that it shows; both may outlive a test.

    The browser keeps the files of the page, and the key by which the server knows it. Loading the
    page again then takes a third of the work.
    """

    def __init__(self, folder: Path, context: BrowserContext) -> None:
        self.context = context
        self.is_known = False
        self._folder = folder
        self._numbers = count(1)
        self._scene = make_scene(folder, clock=SystemClock(UTC))
        self._core = _CurrentCore(self._scene.reception)
        self._serving = AsyncExitStack()
        self._tab: Page | None = None
        self._is_tab_free = True

    async def start(self) -> None:
        reception = cast("FakeReception", self._core)
        await self._serving.enter_async_context(running(replace(self._scene, reception=reception)))

    async def stop(self) -> None:
        await self._serving.aclose()

    def new_scene(self) -> Scene:
        """A scene with a new core and an unset read mark, on the same server."""
        core = FakeReception(SystemClock(UTC), self._folder, self._numbers)
        core.surfaces.append(self._scene.surface)
        # The server watches the views from its start on.
        core.fakes = self._core.current.fakes
        core.fakes.reset()
        self._core.current = core
        self._scene.mark.value = None
        return replace(self._scene, reception=core)

    def address(self) -> str:
        return f"{self._scene.url}/" if self.is_known else self._scene.surface.address()

    async def tab(self) -> Page:
        """The reusable tab, or a new one if that is in use."""
        if not self._is_tab_free:
            return await self.context.new_page()
        self._is_tab_free = False
        if self._tab is None or self._tab.is_closed():
            self._tab = await self.context.new_page()
        return self._tab

    async def clean(self) -> None:
        """Remove everything that a test has left, except for the browser's cache and key."""
        core = self._core.current
        core.may_answer.set()
        await core.interrupt()
        for page in self.context.pages:
            if page is not self._tab:
                await page.close()
        if self._tab is not None and not self._tab.is_closed():
            await self._cleared(self._tab)
        await self.context.clear_permissions()
        shutil.rmtree(self._folder / "downloads", ignore_errors=True)
        self._is_tab_free = True

    async def _cleared(self, tab: Page) -> None:
        await tab.unroute_all()
        # A page of the same site: for another site the browser starts another process.
        await tab.goto(f"{self._scene.url}{HEALTH}")
        await tab.evaluate(_FORGET)
        await tab.set_viewport_size(_USUAL_SIZE)
        await tab.emulate_media(color_scheme="light", reduced_motion="no-preference")


class _CurrentCore:
    """Passes every call on to the core of the running test."""

    def __init__(self, core: FakeReception) -> None:
        self.current = core

    def __getattr__(self, name: str) -> object:
        return getattr(self.current, name)


class SharedContext:
    """The served context that most tests share. It is replaced after a failed test."""

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[ServedContext]]) -> None:
        self._make = make
        self._lifetime = AsyncExitStack()
        self._current: ServedContext | None = None

    async def get(self) -> ServedContext:
        if self._current is None:
            self._current = await self._lifetime.enter_async_context(self._make())
        return self._current

    async def clean(self) -> None:
        try:
            await (await self.get()).clean()
        except BaseException:
            await self.drop()
            raise

    async def drop(self) -> None:
        self._current = None
        await self._lifetime.aclose()
