from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.features.google.scene import START, GoogleScene, google_scene
from tests.terminal import Terminal


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[GoogleScene]:
    """A local Google, not connected yet."""
    with google_scene(tmp_path / "data") as scene:
        yield scene


@pytest.fixture
def connected(scene: GoogleScene) -> GoogleScene:
    """A local Google with all services connected."""
    scene.connect()
    return scene


@pytest.fixture
def terminal(scene: GoogleScene, tmp_path: Path) -> Terminal:
    """A terminal whose commands talk to the local Google."""
    terminal = Terminal(tmp_path, START)
    terminal.paths = scene.paths
    terminal.environ |= {**scene.google.environment, "OLLIM_DATA_DIR": str(scene.paths.root)}
    return terminal


@pytest.fixture
def scene_with_client(scene: GoogleScene) -> GoogleScene:
    """A local Google whose OAuth client the owner has, not connected yet."""
    scene.write_credentials()
    return scene
