"""A data directory for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kernel.store.scene import StoreScene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[StoreScene]:
    scene = StoreScene(tmp_path)
    yield scene
    scene.close()
