from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.google.scene import GoogleScene, google_scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[GoogleScene]:
    """A local Google, not connected yet."""
    with google_scene(tmp_path / "data") as scene:
        yield scene


@pytest.fixture
def connected(scene: GoogleScene) -> GoogleScene:
    """The same, with all services connected."""
    scene.connect()
    return scene
