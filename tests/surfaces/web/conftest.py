from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.surfaces.web.browser import Browser, signed_in_browser
from tests.surfaces.web.scene import Scene, make_scene, running


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with running(make_scene(tmp_path)) as scene:
        yield scene


@pytest.fixture
async def browser(scene: Scene) -> AsyncIterator[Browser]:
    """The owner's browser, signed in."""
    async with signed_in_browser(scene) as browser:
        yield browser
