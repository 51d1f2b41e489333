from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.web.browser import Browser, browser
from tests.web.scene import Scene, make_scene, running


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with running(make_scene(tmp_path)) as scene:
        yield scene


@pytest.fixture
async def own(scene: Scene) -> AsyncIterator[Browser]:
    """The owner's browser, let in."""
    async with browser(scene) as own:
        yield own
