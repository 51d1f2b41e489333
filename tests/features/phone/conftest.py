from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from devtools.localntfy.server import LocalNtfy
from tests.features.phone.scene import PhoneScene


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[PhoneScene]:
    """A paired phone at a server that has no messages."""
    async with LocalNtfy() as ntfy:
        scene = PhoneScene(tmp_path, ntfy)
        scene.pair()
        yield scene
